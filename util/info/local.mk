# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what this machine can promise; %D% is this directory
#
# What the provider knows comes from its own objects.

bin_PROGRAMS += fi_pmem_info
noinst_LTLIBRARIES += libinfo.la
libinfo_la_SOURCES = \
	%D%/advice.c \
	%D%/ask.c \
	%D%/device.c \
	%D%/disk.c \
	%D%/info.h \
	%D%/memory.c \
	%D%/model.c \
	%D%/pci.c \
	%D%/rdma_flush.c \
	%D%/screen.c \
	%D%/target.c
libinfo_la_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS)
libinfo_la_LIBADD = libprovider.la $(JSON_C_LIBS)
fi_pmem_info_SOURCES = %D%/fi_pmem_info.c %D%/info.h
fi_pmem_info_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS)
fi_pmem_info_LDADD = libinfo.la $(LIBFABRIC_LIBS) $(JSON_C_LIBS) -lpthread

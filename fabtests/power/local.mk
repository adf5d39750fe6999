# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- is what was acknowledged there after a power failure?  %D% is this directory

bin_PROGRAMS += fi_pmem_plug
fi_pmem_plug_SOURCES = %D%/fi_pmem_plug.c \
	%D%/plug.h %D%/plug_target.c %D%/plug_initiator.c %D%/plug_checker.c
fi_pmem_plug_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS)

EXTRA_DIST += %D%/plug

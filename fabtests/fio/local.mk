# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- fio's I/O engine; %D% is this directory
#
# It is loaded by fio, all of whose symbols it sees: its own stay its own.

if HAVE_FIO
fiodir = $(pkglibdir)
fio_LTLIBRARIES = libfabric-pmem.la
libfabric_pmem_la_SOURCES = \
	%D%/fio_client.c \
	%D%/fio_engine.c \
	%D%/fio_link.h \
	%D%/fio_proto.h \
	%D%/fio_target.c \
	fabtests/common/memory.c fabtests/common/memory.h
libfabric_pmem_la_CPPFLAGS = $(AM_CPPFLAGS) $(FIO_CPPFLAGS)
libfabric_pmem_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden -pthread
# libfabric and its providers may have threads: their code must not go away.
libfabric_pmem_la_LDFLAGS = -module -avoid-version -shared -Wl,-z,nodelete
libfabric_pmem_la_LIBADD = libconnection.la $(LIBFABRIC_LIBS)
endif

EXTRA_DIST += %D%/client.fio %D%/fio-test %D%/get-source %D%/target.fio

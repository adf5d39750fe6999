# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- clients that know nothing of persistent memory; %D% is this directory
#
# The one of MPI is built by mpicc, where that is: runtests does so.

bin_PROGRAMS += fi_pmem_shmem
fi_pmem_shmem_SOURCES = %D%/fi_pmem_shmem.c \
	%D%/acks.c %D%/acks.h
fi_pmem_shmem_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS)

EXTRA_DIST += %D%/mpi/pmem_mpi.c %D%/mpi/run

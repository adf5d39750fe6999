# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests of fi_pmem_info; %D% is this directory

TESTS += test_info_program
check_PROGRAMS += test_info_program
test_info_program_SOURCES = \
	%D%/machine.c %D%/machine.h \
	%D%/test_info_advice.c \
	%D%/test_info_device.c \
	%D%/test_info_disk.c \
	%D%/test_info_memory.c \
	%D%/test_info_rdma_flush.c \
	%D%/test_info_screen.c \
	%D%/test_info_target.c \
	$(mem_system_sources)
test_info_program_LDADD = libtesting.la libinfo.la $(CRITERION_LIBS) $(JSON_C_LIBS) $(LIBFABRIC_LIBS) -lpthread

# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the model of the hardware; %D% is this directory

# Also for others that are to run on the model.
check_LTLIBRARIES += libpmemsim.la
libpmemsim_la_SOURCES = $(testcore_sources) \
	%D%/arena.c %D%/arena.h \
	%D%/checks.c %D%/checks.h \
	%D%/explore.c %D%/explore.h \
	%D%/hw.c %D%/hw.h \
	%D%/hw_impl.h \
	%D%/hw_memory.c \
	%D%/hw_steps.c \
	%D%/hw_take.c \
	%D%/invariants.c \
	%D%/pmemsim.c %D%/pmemsim.h \
	%D%/program.c \
	%D%/setup.c \
	%D%/world.c %D%/world.h \
	%D%/world_cpu.c \
	%D%/world_impl.h \
	util/number.h
pmemsim_cppflags = $(AM_CPPFLAGS) -I$(srcdir)/%D%
pmemsim_cflags = $(AM_CFLAGS) $(GLIB_CFLAGS) $(XXHASH_CFLAGS) $(SODIUM_CFLAGS) -O2
# Time stands still there, writes are forgotten on purpose, and all is taken for 8 aligned bytes.
pmemsim_ldflags = -Wl,--wrap=clock_gettime,--wrap=pmv_dirty_add,--wrap=pmv_rdma_flush_may_be_tail
libpmemsim_la_CPPFLAGS = $(pmemsim_cppflags)
libpmemsim_la_CFLAGS = $(pmemsim_cflags)
libpmemsim_la_LIBADD = libprovider.la $(GLIB_LIBS) $(LIBFABRIC_LIBS) -lpthread

check_PROGRAMS += pmemsim_check
pmemsim_check_SOURCES = \
	%D%/cells.c %D%/cells.h \
	%D%/check.c \
	%D%/litmus.c %D%/litmus.h \
	%D%/litmus_memory.c %D%/litmus_network.c %D%/litmus_tests.h \
	%D%/mutants.c %D%/mutants.h \
	%D%/random.c %D%/random.h
pmemsim_check_CPPFLAGS = $(pmemsim_cppflags)
pmemsim_check_CFLAGS = $(pmemsim_cflags)
pmemsim_check_LDFLAGS = $(pmemsim_ldflags)
pmemsim_check_LDADD = libpmemsim.la

check_PROGRAMS += chain_model
chain_model_SOURCES = %D%/chain_model.c
chain_model_CPPFLAGS = $(pmemsim_cppflags)
chain_model_CFLAGS = $(pmemsim_cflags)
chain_model_LDFLAGS = $(pmemsim_ldflags)
chain_model_LDADD = libpmemsim.la

check_PROGRAMS += files_model
files_model_SOURCES = %D%/files_model.c
files_model_CPPFLAGS = $(pmemsim_cppflags)
files_model_CFLAGS = $(pmemsim_cflags)
files_model_LDFLAGS = $(pmemsim_ldflags) -Wl,--wrap=pmv_spawn,--wrap=pmv_files_cover,--wrap=pmv_files_find,--wrap=pmv_region_was_lost \
	-Wl,--wrap=pmv_syncing_take,--wrap=pthread_mutex_lock
files_model_LDADD = libpmemsim.la

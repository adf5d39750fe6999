# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- liveness, by simulation; %D% is this directory

check_LTLIBRARIES += libpmemlive.la
libpmemlive_la_SOURCES = $(testcore_sources) \
	%D%/apps.c \
	%D%/callers.c \
	%D%/chains.c \
	%D%/conns.c \
	%D%/core.c %D%/core.h \
	%D%/core_cm.c \
	%D%/core_eq.c \
	%D%/core_events.c \
	%D%/core_objects.c \
	%D%/core_pep.c \
	%D%/core_srx.c \
	%D%/descriptors.c %D%/descriptors.h \
	%D%/events.c \
	%D%/floods.c \
	%D%/inside.c %D%/inside.h \
	%D%/links.c \
	%D%/messages.c \
	%D%/ops.c \
	%D%/rdm_apps.c \
	%D%/rdm_harm.c \
	%D%/rdm_setup.c \
	%D%/rdm_world.c %D%/rdm_world.h \
	%D%/rxm.c %D%/rxm.h \
	%D%/scheduler.c %D%/scheduler.h \
	%D%/silences.c \
	%D%/sleepers.c \
	%D%/sockets.c \
	%D%/tcp.c \
	%D%/threads.c \
	%D%/world.c %D%/world.h \
	%D%/world_setup.c \
	%D%/world_time.c \
	%D%/wraps.h
# Its threads jump from one stack to another, which a fortified longjmp() takes for a mistake.
live_cppflags = $(AM_CPPFLAGS) -I$(srcdir)/%D% -U_FORTIFY_SOURCE
live_cflags = $(AM_CFLAGS) $(SODIUM_CFLAGS)
# Threads, time and descriptors are simulated: what the provider calls comes here (wraps.h).
live_ldflags = \
	-Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_trylock -Wl,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_cond_wait -Wl,--wrap=pthread_cond_clockwait -Wl,--wrap=pthread_cond_signal -Wl,--wrap=pthread_cond_broadcast \
	-Wl,--wrap=pthread_create -Wl,--wrap=pthread_setname_np -Wl,--wrap=pthread_join -Wl,--wrap=pthread_self \
	-Wl,--wrap=pthread_detach -Wl,--wrap=getsockopt -Wl,--wrap=shutdown -Wl,--wrap=connect \
	-Wl,--wrap=opendir -Wl,--wrap=readdir -Wl,--wrap=closedir \
	-Wl,--wrap=clock_gettime -Wl,--wrap=nanosleep -Wl,--wrap=getrandom \
	-Wl,--wrap=eventfd -Wl,--wrap=epoll_create1 -Wl,--wrap=epoll_ctl -Wl,--wrap=epoll_wait \
	-Wl,--wrap=poll -Wl,--wrap=ppoll -Wl,--wrap=timerfd_create -Wl,--wrap=timerfd_settime \
	-Wl,--wrap=read -Wl,--wrap=write -Wl,--wrap=close \
	-Wl,--wrap=socket -Wl,--wrap=setsockopt -Wl,--wrap=bind -Wl,--wrap=getsockname \
	-Wl,--wrap=sendto -Wl,--wrap=recv
live_ldadd = libpmemlive.la $(LIBFABRIC_LIBS) -lpthread
libpmemlive_la_CPPFLAGS = $(live_cppflags)
libpmemlive_la_CFLAGS = $(live_cflags)
# In one library: each of them calls the other one.
libpmemlive_la_LIBADD = libprovider.la

check_PROGRAMS += pmemlive
pmemlive_SOURCES = %D%/pmemlive.c
pmemlive_CPPFLAGS = $(live_cppflags)
pmemlive_CFLAGS = $(live_cflags)
pmemlive_LDFLAGS = $(live_ldflags)
pmemlive_LDADD = $(live_ldadd)

# The same with a file of the provider that try-mutants has changed, in place of the right one.
EXTRA_PROGRAMS += pmemlive_mutant
pmemlive_mutant_SOURCES = %D%/pmemlive.c
nodist_pmemlive_mutant_SOURCES = %D%/mutant.c
pmemlive_mutant_CPPFLAGS = $(live_cppflags)
pmemlive_mutant_CFLAGS = $(AM_CFLAGS) $(provider_cflags) -fvisibility=hidden
pmemlive_mutant_LDFLAGS = $(live_ldflags)
pmemlive_mutant_LDADD = $(live_ldadd)

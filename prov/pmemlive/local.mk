# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- liveness, by simulation; %D% is this directory

check_PROGRAMS += pmemlive
pmemlive_SOURCES = $(testcore_sources) \
	%D%/apps.c \
	%D%/core.c %D%/core.h \
	%D%/core_eq.c \
	%D%/core_objects.c \
	%D%/descriptors.c %D%/descriptors.h \
	%D%/pmemlive.c \
	%D%/scheduler.c %D%/scheduler.h \
	%D%/sockets.c \
	%D%/threads.c \
	%D%/world.c %D%/world.h \
	%D%/world_setup.c \
	%D%/wraps.h
pmemlive_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/%D%
pmemlive_CFLAGS = $(AM_CFLAGS) $(SODIUM_CFLAGS)
# Threads, time and descriptors are simulated: what the provider calls comes here (wraps.h).
pmemlive_LDFLAGS = \
	-Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_trylock -Wl,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_cond_wait -Wl,--wrap=pthread_cond_signal -Wl,--wrap=pthread_cond_broadcast \
	-Wl,--wrap=pthread_create -Wl,--wrap=pthread_setname_np -Wl,--wrap=pthread_join -Wl,--wrap=clock_gettime \
	-Wl,--wrap=nanosleep -Wl,--wrap=getrandom -Wl,--wrap=eventfd -Wl,--wrap=epoll_create1 \
	-Wl,--wrap=epoll_ctl -Wl,--wrap=epoll_wait -Wl,--wrap=poll -Wl,--wrap=ppoll -Wl,--wrap=timerfd_create \
	-Wl,--wrap=timerfd_settime -Wl,--wrap=read -Wl,--wrap=write -Wl,--wrap=close \
	-Wl,--wrap=socket -Wl,--wrap=setsockopt -Wl,--wrap=bind -Wl,--wrap=getsockname \
	-Wl,--wrap=sendto -Wl,--wrap=recv
pmemlive_LDADD = libprovider.la $(LIBFABRIC_LIBS) -lpthread

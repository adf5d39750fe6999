# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the lab, an emulated machine; %D% is this directory

# Preloaded there.
noinst_LTLIBRARIES += libretransmit.la
libretransmit_la_SOURCES = %D%/retransmit.c
libretransmit_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)

EXTRA_DIST += %D%/README.md %D%/debian13 %D%/lab

# The lab's parts, and what it puts into a guest.
EXTRA_DIST += %D%/guest.sh %D%/kernel.sh %D%/options.sh %D%/requests.sh
EXTRA_DIST += %D%/guest-init %D%/guest-initrd %D%/guest-run %D%/lab-ctl

# What runtests runs in guests.
EXTRA_DIST += \
	%D%/guest/adr \
	%D%/guest/bench \
	%D%/guest/common.sh \
	%D%/guest/cxl \
	%D%/guest/debian13 \
	%D%/guest/demos \
	%D%/guest/eadr \
	%D%/guest/files \
	%D%/guest/keys.sh \
	%D%/guest/link \
	%D%/guest/logs \
	%D%/guest/mend.sh \
	%D%/guest/native \
	%D%/guest/peer \
	%D%/guest/rdm \
	%D%/guest/stores \
	%D%/guest/units

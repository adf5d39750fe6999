# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what the unit tests' fake core and the model's core have in common; %D% is this directory

testcore_sources = \
	%D%/atomic.c \
	%D%/cq.c %D%/cq.h \
	%D%/ep.c %D%/ep.h \
	%D%/fid.h \
	%D%/message.h \
	%D%/mr.c %D%/mr.h \
	%D%/request.c %D%/request.h

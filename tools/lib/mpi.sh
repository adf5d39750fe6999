# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# mpi.sh -- the program for MPI
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

# build_mpi -- the rest can be built where there is no MPI
build_mpi()
{
	use_build plain
	# Two steps do so, at any time.
	mpicc -std=gnu11 -D_GNU_SOURCE -DHAVE_CONFIG_H -I"$bin" -O2 -Wall -Wextra -Werror \
		"$top/fabtests/clients/mpi/pmem_mpi.c" "$top/fabtests/clients/acks.c" "$top/fabtests/common/memory.c" \
		-o "$bin/pmem_mpi.$BASHPID" &&
		mv "$bin/pmem_mpi.$BASHPID" "$bin/pmem_mpi"
}

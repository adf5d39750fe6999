# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# flow.sh -- for rpc-test: the cases of rpc_flow
#
# shellcheck disable=SC2034,SC2154 # rpc-test sets these and uses them

# flow CASE... -- a server, which is killed meanwhile, and its clients
flow()
{
	local case

	for case; do
		env "LD_PRELOAD=$loaded" "$programs/rpc_flow" "$work" "$port" "$case" || return
	done
}

try_batches()
{
	flow batches laps killed_batches
}

try_end()
{
	flow end
}

try_silence()
{
	flow silence
}

try_throttle()
{
	flow throttle
}

try_rate()
{
	flow rate
}

try_pool()
{
	flow pool take_over
}

# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# lab.sh -- steps in the lab: an emulated machine
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

lab=("$top/fabtests/lab/lab")
# Scripts that run in a guest.
guest=$top/fabtests/lab/guest

# A guest has one processor: two that wait for one another are emulated at almost twice the cost.
few_cpus=(--cpus 1)
! is_long || few_cpus=()
export LAB_LONG=${LONG-}

# in_lab LAB-OPTION... -- COMMAND: again if the emulator itself has crashed
# (137) or could not start (125); COMMAND uses neither
in_lab()
{
	local try status

	use_build plain
	for try in 1 2 3; do
		"${lab[@]}" --share "$log" "$@"
		status=$?
		[ $status = 137 ] || [ $status = 125 ] || break
		echo "the lab broke down, try $try"
	done
	return $status
}

# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# stress.sh -- random operations over tcp
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

# stress SEED [ARG]... -- over tcp; or for two minutes, with a new seed
stress()
{
	local -a limit=(--seed "$1")

	! is_long || limit=(--seconds 120)
	FI_PMEMVERBS_CORE=tcp "$bin/fi_pmem_stress" "${limit[@]}" "${@:2}" || {
		echo "not ok stress ${*:2}"
		return 1
	}
	echo "ok stress ${*:2}"
}

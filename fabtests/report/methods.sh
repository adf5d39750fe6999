# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# methods.sh -- for report: what is compared, and how one program of it is run
#
# shellcheck disable=SC2034,SC2154 # report and its other parts set these and use them

# progress TEXT...
progress()
{
	printf '%3d:%02d  round %d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$round" "$*"
}

# missing SECTION CORE METHOD SETTING REASON -- why there is no figure
missing()
{
	printf '%s,%s,%s,%s,%s\n' "$1" "$2" "$3" "$4" "$(tr ',\n"' '; ' <<<"$5" | sed 's/[; ]*$//')" >>"$out/missing.csv"
}

# fail SECTION CORE METHOD SETTING REASON -- the same, and it should have worked
fail()
{
	missing "$@"
	progress "FAILED: $5"
	failed=yes
}

# methods CORE SECTION -- what is measured there.  Where a clock counts instructions, two processes that poll need --polling,
# and pauses between their looks
methods()
{
	local method some=()

	for method in $(all_methods "$@"); do
		if [ -n "$polling" ]; then
			[[ ! $method =~ ^(agent|native-agent|native-agent-away|bare-write-send)$ ]] || some+=("$method")
		elif [[ ! $method =~ ^(agent|native-agent|file|.*-send|.*-message)(@|$) ]] || [ -z "$icount" ]; then
			[ "$method" = native-agent-away ] || some+=("$method")
		fi
	done
	echo "${some[*]}"
}

# all_methods CORE SECTION -- the references are the programs of others
all_methods()
{
	local bare='' rpma='' first='one-sided agent file' native='native native-agent native-agent-away flush bare-write-flush'

	[ "$1" = tcp ] || bare='bare-write-read bare-write-send' rpma='rpma-flush rpma-write-send rpma-message'
	case $1/$2 in
	verbs/latency)
		echo "$first $native flush-append bare-append core-write-read core-deliver $bare bare-two-posts bare-write-then-read bare-write $rpma"
		;;
	tcp/latency) echo "$first core-commit core-write-read core-deliver" ;;
	verbs/rate) echo "one-sided agent $native core-write-read $bare $rpma" ;;
	tcp/rate) echo "one-sided agent core-commit core-write-read" ;;
	*/bandwidth) echo "one-sided agent core-write-read ${bare:+bare-write-read} ${rpma:+rpma-flush}" ;;
	*/threads) echo "one-sided agent core-write-read" ;;
	*/pause) echo "one-sided@asleep agent@asleep agent@polling agent@busy ${bare:+bare-write-send@polling}" ;;
	*/costs) echo "one-sided agent core-write-read ${bare:-core-commit} ${rpma:+bare-write-then-read} $rpma" ;;
	esac
}

# in_turn SECTION -- methods, in each round beginning with another one
in_turn()
{
	local -a all
	local first

	read -ra all < <(methods "$core" "$1")
	first=$(((round - 1) % ${#all[@]}))
	echo "${all[@]:first}" "${all[@]:0:first}"
}

# use METHOD SECTION -- set program, its options at both ends and here, and settings
use()
{
	local commits=fi_pmem_lat

	case $2 in rate | bandwidth | threads) commits=fi_pmem_bw ;; esac
	program=$commits both=() here=() there=() settings=(FI_PMEMVERBS_CORE="$core")
	[ -z "$memory" ] || there=(-M "$memory")
	# The target's application is asleep; where its state is what is measured, a later -c says otherwise.
	[[ $1 = bare-* || $1 = rpma-* || $2 = memory ]] || there+=(-c sread)
	case $1 in
	one-sided) settings+=(FI_PMEMVERBS_DOMAIN=mhp) ;;
	agent) settings+=(FI_PMEMVERBS_DOMAIN=dmp FI_PMEMVERBS_DDIO=on) ;;
	file) there+=(-M "$file") ;;
	native) settings+=(FI_PMEMVERBS_CORE=native FI_PMEMVERBS_DOMAIN=mhp FI_PMEMVERBS_FLUSH=off) ;;
	native-agent*)
		settings+=(FI_PMEMVERBS_CORE=native FI_PMEMVERBS_DOMAIN=dmp FI_PMEMVERBS_DDIO=on FI_PMEMVERBS_FLUSH=off)
		[ "$1" = native-agent ] || there+=(-c away)
		;;
	flush | flush-append)
		settings+=(FI_PMEMVERBS_CORE=native FI_PMEMVERBS_DOMAIN=dmp FI_PMEMVERBS_DDIO=on)
		[ "$1" = flush ] || here=(-o fenced-pair)
		;;
	core-*) both=(-p "$core") here=(-o "${1#core-}") ;;
	bare-*) program=pmem_verbs_lat here=(-o "${1#bare-}") ;;
	rpma-*) program=pmem_rpma_lat there+=(-s "$host") here=(-o "${1#rpma-}") ;;
	esac
}

# pair_up FILE [OPTION]... -- run the program at both ends; its output goes to $work/said
pair_up()
{
	local csv=$1 provider_path=${programs:+FI_PROVIDER_PATH=$programs/.libs}
	local -a server client

	shift
	# shellcheck disable=SC2206 # words
	server=(${polling:+taskset 2} $target env ${target_programs:+FI_PROVIDER_PATH="$target_programs/.libs"} "${settings[@]}" "${server_settings[@]}"
		"${target_programs:+$target_programs/}$program" -B "$port" "${both[@]}" "${there[@]}")
	# shellcheck disable=SC2206
	client=(${polling:+taskset 4} env $provider_path "${settings[@]}" "${client_settings[@]}"
		"$program" -P "$port" "${both[@]}" "${here[@]}" "$@" --csv "$csv" "$host")
	printf '%s -- %s\n' "${server[*]}" "${client[*]}" |
		sed "s|${programs:-/nonexistent}|BUILD|g; s|$csv|FILE|g; s|$out|OUT|g; s|$work|WORK|g" >>"$out/commands.txt"
	"$top/fabtests/common/pair" --timeout 60 "${server[@]}" -- "${client[@]}" >"$work/said" 2>&1
}
server_settings=() client_settings=()

# why -- the last thing that was said, without what is no reason
why()
{
	local reason

	reason=$(grep -vE '^(waiting on port|pair: |pmemverbs: FI_PMEMVERBS_.* (is believed|declares))' "$work/said" |
		grep -vE '^ *[0-9]|^bytes' | tail -n 1)
	printf '%s' "${reason:-$(tail -n 1 "$work/said")}"
}

# run SECTION METHOD SETTING [OPTION]... -- one program, and its rows into the section's file
run()
{
	local section=$1 method=$2 setting=$3 reason

	shift 3
	progress "$section: $core, $method${setting:+, $setting}"
	reason=$(impossible "$method") && {
		missing "$section" "$core" "$method" "$setting" "$reason"
		return
	}
	rm -f "$work/csv"
	if ! pair_up "$work/csv" "$@" || [ ! -s "$work/csv" ]; then
		fail "$section" "$core" "$method" "$setting" "$(why)"
		return
	fi
	[ -s "$out/$section.csv" ] ||
		printf 'core,method,setting,round,%s\n' "$(head -n 1 "$work/csv")" >"$out/$section.csv"
	tail -n +2 "$work/csv" | sed "s/^/$core,$method,$setting,$round,/" >>"$out/$section.csv"
}

# impossible METHOD -- say why it can't be tried here; fails if it can be
impossible()
{
	case $1 in
	rpma-*) ! command -v pmem_rpma_lat >/dev/null && echo "built without librpma (librpma-dev)" ;;
	file) [ -z "$file" ] && echo "$file_reason" ;;
	flush | flush-append | bare-write-flush | bare-append) [ -z "$flushes" ] && echo "no RDMA FLUSH (fi_pmem_info says why)" ;;
	*) false ;;
	esac
}

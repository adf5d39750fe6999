# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# sections.sh -- for report: what is measured, a function a section
#
# shellcheck disable=SC2034,SC2154 # report and its other parts set these and use them

# set_amounts -- how many sizes, iterations and rounds
set_amounts()
{
	if [ -n "$quick" ]; then
		sizes=64,262144 bulk=262144 windows=1,16 threads='1 2' pauses=0,1000 repeat=(-v -I 50 -w 5 -T 20) most_rounds=1
	else
		sizes=8,64,1024,4096,65536,262144,1048576 bulk=4096,65536,262144
		windows=1,4,16,64,256 threads='1 2 4 8' pauses=0,1000,10000
		repeat=(-v -I 5000 -w 20 -T 150) most_rounds=5
	fi
	[ -z "$icount" ] || {
		# There is nothing that another round could find out.
		most_rounds=1
		# Until the device's threads have found their turns, a hundred commits may take a tenth more each.
		[ -z "$quick" ] || repeat=(-v -I 1000 -w 5 -T 100)
	}
}

latency()
{
	local method

	for method in $(in_turn latency); do
		use "$method" latency
		run latency "$method" '' "${repeat[@]}" -S "$sizes"
	done
}

rate()
{
	local method

	for method in $(in_turn rate); do
		use "$method" rate
		run rate "$method" '' "${repeat[@]}" -I 100000 -S 64 -W "$windows"
	done
}

bandwidth()
{
	local method

	for method in $(in_turn bandwidth); do
		use "$method" bandwidth
		run bandwidth "$method" '' "${repeat[@]}" -I 100000 -S "$bulk" -W 64
	done
}

threads()
{
	local method n

	for n in $threads; do
		for method in $(methods "$core" threads); do
			use "$method" threads
			both+=(-n "$n")
			run threads "$method" "" "${repeat[@]}" -I 100000 -S 64 -W 1,16
		done
	done
}

# pause -- the target sleeps in fi_cq_sread; or it polls; or its agent never sleeps
pause()
{
	local each method setting

	for each in $(in_turn pause); do
		method=${each%@*} setting=${each#*@}
		use "$method" pause
		server_settings=()
		case $method/$setting in
		bare*) ;;
		*/polling) there+=(-c spin) ;;
		*/busy) server_settings=(FI_PMEMVERBS_AGENT=busy) ;;
		esac
		run pause "$method" "$setting" -v -I 100 -w 5 -T 500 -S 64 -i "$pauses"
	done
	server_settings=()
}

waiting()
{
	local method wait application agent

	for application in spin sread away; do
		for agent in thread progress; do
			for wait in spin fd sread; do
				for method in one-sided agent; do
					[ -z "$quick" ] || [ $agent/$application = thread/sread ] || continue
					use "$method" waiting
					there+=(-c "$application")
					here+=(-c "$wait")
					settings+=("FI_PMEMVERBS_AGENT=$agent")
					run waiting $method "$application $agent $wait" -v -I 1000 -w 2 -T 100 -S 64
				done
			done
		done
	done
}

# packet_counters -- packets that have passed between the two ends, counted by this one
packet_counters()
{
	local device netdev counters

	if [ "$core" = verbs ]; then
		device=$(rdma_device)
		counters=/sys/class/infiniband/$device/ports/1
		if [ -e "$counters/hw_counters/sent_pkts" ]; then
			cat "$counters/hw_counters/sent_pkts"
			[ -z "$target" ] || cat "$counters/hw_counters/rcvd_pkts"
		else
			cat "$counters"/counters/port_{xmit,rcv}_packets
		fi
	else
		netdev=$(ip -o route get "$host" | sed 's/.* dev \([^ ]*\).*/\1/')
		cat "/sys/class/net/$netdev/statistics/tx_packets"
		[ "$netdev" = lo ] || cat "/sys/class/net/$netdev/statistics/rx_packets"
	fi 2>/dev/null | datamash sum 1
}

# count METHOD TIMES -- packets, and calls and requests of both ends, of so many commits
count()
{
	local counting=$programs/.libs/libcount_posts.so before after

	use "$1" costs
	rm -f "$work"/posts.*
	if [ "$core" = verbs ] && [ -z "$target" ] && [ -e "$counting" ]; then
		server_settings=(LD_PRELOAD="$counting" PMEM_COUNT_POSTS="$work/posts.there")
		client_settings=(LD_PRELOAD="$counting" PMEM_COUNT_POSTS="$work/posts.here")
	fi
	before=$(packet_counters)
	pair_up "$work/csv" -S 64 -w 1 -I "$2" || return
	after=$(packet_counters)
	server_settings=() client_settings=()
	cat "$work/posts.here" "$work/posts.there" /dev/null 2>/dev/null | awk -v packets=$((after - before)) '
		{ calls += $1; requests += $2 }
		END { print packets, NR ? calls : "-", NR ? requests : "-" }'
}

# costs -- of one commit: the difference between some and twice as many
costs()
{
	local method some=200 one two

	[ -z "$quick" ] || some=50
	for method in $(methods "$core" costs); do
		progress "costs: $core, $method"
		one=$(impossible "$method") && {
			missing costs "$core" "$method" '' "$one"
			continue
		}
		if ! one=$(count "$method" $some) || ! two=$(count "$method" $((2 * some))); then
			fail costs "$core" "$method" '' "$(why)"
			continue
		fi
		[ -s "$out/costs.csv" ] ||
			echo 'core,method,packets_per_commit,doorbells_per_commit,work_requests_per_commit' >"$out/costs.csv"
		awk -v n=$some -v head="$core,$method" '
			function per(a, b) { return a == "-" ? "-" : sprintf("%.2f", (b - a) / n) }
			{ print head "," per($1, $4) "," per($2, $5) "," per($3, $6) }' <<<"$one $two" >>"$out/costs.csv"
	done
}

# memory -- of a connection, by fi_pmem_scale
memory()
{
	local method connections=33

	[ -z "$quick" ] || connections=5
	for method in one-sided agent core-deliver; do
		use $method memory
		program=fi_pmem_scale here=()
		progress "memory of a connection: $core, $method"
		rm -f "$work/csv"
		if ! pair_up "$work/csv" -n $connections -I 50 -w 5; then
			fail memory "$core" $method '' "$(why)"
			continue
		fi
		[ -s "$out/memory.csv" ] ||
			printf 'core,method,%s\n' "$(head -n 1 "$work/csv")" >"$out/memory.csv"
		tail -n +2 "$work/csv" | sed "s/^/$core,$method,/" >>"$out/memory.csv"
	done
}

# instructions -- of the provider, by callgrind: they need no target, and no quiet machine
instructions()
{
	if ! command -v valgrind >/dev/null || [ ! -x "$programs/bench_calls" ]; then
		missing instructions '' '' '' "it needs valgrind, and bench_calls (make bench_calls) in the build folder"
		return
	fi
	[ -z "$quick" ] || { missing instructions '' '' '' "left out with --quick"; return; }
	progress "instructions by callgrind"
	(cd "$programs" && "$top/tools/count-instructions") >"$work/said" 2>&1 || {
		fail instructions '' '' '' "$(why)"
		return
	}
	awk '{ print $1 "," $2 "," $3 "," $4 }' "$work/said" >"$out/instructions.csv"
}

# remotelog -- by a script of its own, in the layout of the paper that has it from
remotelog()
{
	local count=200 rounds=3

	[ -z "$quick" ] || count=20 rounds=1
	progress "remotelog: $core"
	# It takes programs from the current folder, or from PATH.
	(cd "${programs:-.}" && env ${programs:+FI_PROVIDER_PATH="$programs/.libs"} "$top/fabtests/remotelog/remotelog" --core "$core" \
		--address "$host" --port "$port" --count $count --rounds $rounds ${memory:+--memory "$memory"} \
		${target:+--target "$target"} --csv "$out/remotelog-$core.csv" --plot "$out/remotelog-$core.svg") \
		>"$out/remotelog-$core.txt" 2>"$work/said" || fail remotelog "$core" '' '' "$(why)"
}

# rpc -- durable calls next to other designs, by a script of its own
rpc()
{
	# The shortest set that has what the paper has.
	local some=(--rounds 1 --cases 'micro,mix,ycsb,pagerank,availability'
		--modes 'pmemrpc,pmemrpc-send,darpc,darpc-spin,fasst,octopus,farm,l5,rfp,scalerpc')

	if [ -n "$target" ] || [ ! -x "$programs/fi_pmem_rpc_bench" ]; then
		missing rpc "$core" '' '' "both ends have to be here, and the programs in a build folder"
		return
	fi
	[ -z "$quick" ] || some=(--rounds 1 --quick --cases micro --modes 'pmemrpc,darpc,farm')
	progress "durable calls: $core"
	FI_PROVIDER_PATH=$programs/.libs FI_PMEMVERBS_CORE=$core "$top/rpc/bench/rpc-bench" "${some[@]}" --port "$port" \
		--address "$host" ${memory:+--memory "$memory"} "$programs" "$work/rpc" >"$work/said" 2>&1 ||
		fail rpc "$core" '' '' "$(why)"
	[ ! -s "$work/rpc/rpc.csv" ] || mv "$work/rpc/rpc.csv" "$out/rpc-$core.csv"
}

# stores -- on chains, next to the designs that their paper compares with, by a script of its own
stores()
{
	if [ -n "$target" ] || [ ! -x "$programs/fi_pmem_rpc_kv" ]; then
		missing stores "$core" '' '' "both ends have to be here, and the programs in a build folder"
		return
	fi
	progress "stores on chains: $core"
	FI_PMEMVERBS_CORE=$core "$top/fabtests/report/stores" ${quick:+--quick --rounds 1} --port "$port" --address "$host" \
		"$programs" "$out/stores-$core.csv" >"$work/said" 2>&1 || fail stores "$core" '' '' "$(why)"
}

# clients -- many of them write to files on a disk, next to other ways to make that durable, by a script of its own
clients()
{
	local some=(--rounds 1 --seconds 1)

	if [ "$core" != tcp ] || [ -n "$target" ] || [ ! -x "$programs/fi_pmem_scale" ]; then
		missing clients "$core" '' '' "both ends have to be here, over tcp, and the programs in a build folder"
		return
	fi
	[ -z "$quick" ] || some+=(--clients '2,4' --files one --rows 'ours-file,ours-dmp')
	progress "many clients of files: $core"
	"$top/fabtests/benchmarks/many-clients" --programs "$programs" --dir "$out" --port "$port" "${some[@]}" \
		--csv "$out/clients-$core.csv" >"$work/said" 2>&1 || fail clients "$core" '' '' "$(why)"
}

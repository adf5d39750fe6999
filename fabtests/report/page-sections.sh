# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# page-sections.sh -- for report-page: a function a section: what is shown of it
#
# shellcheck disable=SC2034,SC2154 # report-page and its other parts set these and use them

# ratio SECTION CORE METHOD SETTING X -- and the same of what it is held against: TEXT AIM less|more VALUE and two keys
ratio()
{
	local text=$1 aim=$2 better=$3 value=$4 one=$5 other=$6

	awk -F, -v text="$text" -v aim="$aim" -v better="$better" -v value="$value" -v one="$one" -v other="$other" '
		{ key = $1 "," $2 "," $3 "," $4 "," $5 "," $6 "," $7 "," $8
		  figure[key] = value == "rate" ? $15 : $9; p99[key] = $12 }
		function show(v) { return value == "rate" ? sprintf("%.0f /s", v) : v >= 10000 ? sprintf("%.1f ms", v / 1000) : sprintf("%.1f µs", v) }
		END {
			if (!(one in figure) || !(other in figure) || !figure[other])
				exit
			r = figure[one] / figure[other]
			met = better == "less" ? r <= aim : r >= aim
			class = aim == "" ? "" : met ? "good" : "bad"
			said = aim == "" ? "none" : (better == "less" ? "at most " : "at least ") aim
			printf "<tr class=\"figures\"><td class=\"l\">%s</td><td>%s</td><td>%s</td><td class=\"%s\"><b>×%.2f</b></td><td>%s</td></tr>\n",
				text, show(figure[one]), show(figure[other]), class, r, said
		}' "$work/medians"
}

summary()
{
	local core

	echo '<table><thead><tr><th class="l">what</th><th>it</th><th>next to</th><th>ratio</th><th>aim</th></tr></thead><tbody>'
	for core in $(cores); do
		echo "<tr class=\"group\"><td class=\"l\" colspan=\"5\">over $core</td></tr>"
		ratio 'One-sided commit of 64 bytes, next to WRITE + READ on bare verbs with one doorbell' '' less p50 \
			"latency,$core,one-sided,,64,1,1,0" "latency,$core,bare-write-read,,64,1,1,0"
		ratio 'One-sided commit of 64 bytes, next to the core provider alone doing write + read' '' less p50 \
			"latency,$core,one-sided,,64,1,1,0" "latency,$core,core-write-read,,64,1,1,0"
		ratio 'One-sided commit of 64 bytes, next to librpma: write + flush' '' less p50 \
			"latency,$core,one-sided,,64,1,1,0" "latency,$core,rpma-flush,,64,1,1,0"
		ratio 'Commit of 64 bytes by the agent, next to WRITE + SEND on bare verbs to a target that flushes and answers' 1.10 less p50 \
			"latency,$core,agent,,64,1,1,0" "latency,$core,bare-write-send,,64,1,1,0"
		ratio 'Commit of 64 bytes by the agent, next to librpma: write + send' '' less p50 \
			"latency,$core,agent,,64,1,1,0" "latency,$core,rpma-write-send,,64,1,1,0"
		ratio "Commit of 64 bytes by the agent, next to tcp's own FI_COMMIT_COMPLETE, which writes nothing back" '' less p50 \
			"latency,$core,agent,,64,1,1,0" "latency,$core,core-commit,,64,1,1,0"
		ratio 'One-sided commit of 64 bytes over native, next to WRITE + READ on bare verbs with one doorbell' 1.05 less p50 \
			"latency,$core,native,,64,1,1,0" "latency,$core,bare-write-read,,64,1,1,0"
		ratio 'Rate of one-sided commits over native, 64 in flight, next to WRITE + READ on bare verbs' 0.95 more rate \
			"rate,$core,native,,64,64,1,0" "rate,$core,bare-write-read,,64,64,1,0"
		ratio 'Commit of 64 bytes by RDMA FLUSH, next to WRITE + FLUSH on bare verbs with one doorbell' 1.10 less p50 \
			"latency,$core,flush,,64,1,1,0" "latency,$core,bare-write-flush,,64,1,1,0"
		ratio 'Append of 64 bytes and a tail by RDMA FLUSH, next to the same on bare verbs with one doorbell' 1.15 less p50 \
			"latency,$core,flush-append,,64,1,1,0" "latency,$core,bare-append,,64,1,1,0"
		ratio 'Commit of 64 bytes by RDMA FLUSH, next to librpma: write + flush' 1 less p50 \
			"latency,$core,flush,,64,1,1,0" "latency,$core,rpma-flush,,64,1,1,0"
		ratio 'Commit of 64 bytes by RDMA FLUSH, next to one by the agent over native' 0.7 less p50 \
			"latency,$core,flush,,64,1,1,0" "latency,$core,native-agent,,64,1,1,0"
		ratio 'Commit of 64 bytes by the agent over native, next to WRITE + SEND on bare verbs to a target that flushes and answers' \
			1.10 less p50 "latency,$core,native-agent,,64,1,1,0" "latency,$core,bare-write-send,,64,1,1,0"
		ratio 'Commit by the agent after 10 ms of silence, target asleep, next to the same in a stream' 1.5 less p50 \
			"pause,$core,agent,asleep,64,1,1,10000" "pause,$core,agent,asleep,64,1,1,0"
		ratio 'One-sided commit after 10 ms of silence, target asleep, next to a commit by the agent' 1 less p50 \
			"pause,$core,one-sided,asleep,64,1,1,10000" "pause,$core,agent,asleep,64,1,1,10000"
		ratio 'Rate of one-sided commits, 64 in flight, next to the core provider alone doing write + read' 0.95 more rate \
			"rate,$core,one-sided,,64,64,1,0" "rate,$core,core-write-read,,64,64,1,0"
		ratio 'Commit of 256 KiB by the agent, next to a one-sided one' 1.3 less p50 \
			"latency,$core,agent,,262144,1,1,0" "latency,$core,one-sided,,262144,1,1,0"
		ratio 'Rate of commits of 256 KiB by the agent, 64 in flight, next to one-sided ones' 0.8 more rate \
			"bandwidth,$core,agent,,262144,64,1,0" "bandwidth,$core,one-sided,,262144,64,1,0"
	done
	echo '</tbody></table>'
}

# rows_of CORE -- everything that is measured, each next to its reference
rows_of()
{
	local one=bare-write-read two=bare-write-send

	[ "$1" = verbs ] || one=core-write-read two=core-commit
	echo "=|the target's processor does nothing"
	row one-sided $one
	[ "$1" = tcp ] || row bare-write-read $one
	row core-write-read $one
	if [ "$1" = verbs ]; then
		row native $one
		row flush bare-write-flush
		row bare-write-flush bare-write-flush
		row flush-append bare-append
		row bare-append bare-append
		row bare-two-posts $one
		row bare-write-then-read $one
		row rpma-flush $one
	fi
	echo "=|the target's processor makes it durable"
	row agent $two
	if [ "$1" = verbs ]; then
		row native-agent $two
		row native-agent-away $two
		row bare-write-send $two
		row rpma-write-send $two
		row rpma-message $two
	else
		row core-commit $two
	fi
	row file $two
	echo "=|for comparison: nothing is durable"
	row core-deliver $one
	[ "$1" = tcp ] || row bare-write $one
}

latency()
{
	local core
	local -a rows lines

	for core in $(cores); do
		absent latency "$core" && continue
		mapfile -t rows < <(rows_of "$core")
		lines=(one-sided@ agent@ core-write-read@ bare-write-read@ bare-write-send@ rpma-flush@ rpma-message@)
		[ "$core" = verbs ] || lines=(one-sided@ agent@ core-write-read@ core-commit@ file@)
		echo "<h3>over $core</h3>"
		plot "latency_$core" latency "$core" 5 9 "Median time of one operation over $core" 'bytes' 'microseconds' "${lines[@]}"
		corner='median, µs' table latency "$core" bytes p50 "${rows[@]}"
		echo '<details><summary>99th and 99.9th percentile</summary>'
		corner='p99 / p99.9, µs' table latency "$core" bytes tail "${rows[@]}"
		echo '</details>'
	done
}

rate()
{
	local core
	local -a rows lines

	for core in $(cores); do
		absent rate "$core" && continue
		mapfile -t rows < <(
			if [ "$core" = verbs ]; then
				echo "=|the target's processor does nothing"
				row one-sided core-write-read
				row core-write-read core-write-read
				row bare-write-read core-write-read
				row native bare-write-read
				row flush bare-write-flush
				row bare-write-flush bare-write-flush
				row rpma-flush core-write-read
				echo "=|the target's processor makes it durable"
				row agent bare-write-send
				row native-agent bare-write-send
				row bare-write-send bare-write-send
				row rpma-write-send bare-write-send
				row rpma-message bare-write-send
			else
				row one-sided core-write-read
				row core-write-read core-write-read
				row agent core-commit
				row core-commit core-commit
			fi
		)
		lines=(one-sided@ agent@ core-write-read@ bare-write-read@ bare-write-send@ rpma-flush@ rpma-message@)
		[ "$core" = verbs ] || lines=(one-sided@ agent@ core-write-read@ core-commit@)
		echo "<h3>over $core</h3>"
		plot "rate_$core" rate "$core" 6 15 "Commits of 64 bytes per second over $core" 'in flight' 'commits per second' "${lines[@]}"
		corner='commits per second, by number in flight' table rate "$core" in_flight rate "${rows[@]}"
	done
}

bandwidth()
{
	local core
	local -a rows

	for core in $(cores); do
		absent bandwidth "$core" && continue
		mapfile -t rows < <(
			row one-sided one-sided
			row agent one-sided
			row core-write-read one-sided
			[ "$core" = tcp ] || row bare-write-read one-sided
			[ "$core" = tcp ] || row rpma-flush one-sided
		)
		echo "<h3>over $core</h3>"
		corner='MB per second, 64 in flight' table bandwidth "$core" bytes bandwidth "${rows[@]}"
	done
}

threads()
{
	local core flight

	for core in $(cores); do
		absent threads "$core" && continue
		echo "<h3>over $core</h3>"
		for flight in 1 16; do
			corner="commits per second, $flight in flight on each connection, by threads" table threads "$core" threads rate \
				"$(row one-sided core-write-read)" "$(row core-write-read core-write-read)" "$(row agent core-write-read)"
		done
	done
}

pauses()
{
	local core
	local -a rows

	for core in $(cores); do
		absent pause "$core" && continue
		mapfile -t rows < <(
			row one-sided @0 asleep 'one-sided commit, target asleep in fi_cq_sread'
			row agent @0 asleep 'commit by the agent, target asleep in fi_cq_sread'
			row agent @0 polling 'commit by the agent, target polls'
			row agent @0 busy 'commit by the agent, FI_PMEMVERBS_AGENT=busy'
			[ "$core" = tcp ] || row bare-write-send @0 polling 'bare verbs, WRITE + SEND, target polls'
		)
		echo "<h3>over $core</h3>"
		corner='median, µs; ratio to no pause' table pause "$core" pause p50 "${rows[@]}"
		echo '<details><summary>99th and 99.9th percentile</summary>'
		corner='p99 / p99.9, µs' table pause "$core" pause tail "${rows[@]}"
		echo '</details>'
	done
}

waiting()
{
	local core

	for core in $(cores); do
		absent waiting "$core" && continue
		echo "<h3>over $core</h3>"
		awk -F, -v core="$core" -v section=waiting -f "$top/fabtests/report/waiting.awk" "$dir/missing.csv" "$work/medians"
	done
}

costs()
{
	local core method rest

	echo '<h3>packets and doorbells for a commit of 64 bytes, both ends together</h3>'
	if [ -s "$dir/costs.csv" ]; then
		while IFS=, read -r core method rest; do
			method=$(label "$method" | tr , :)
			echo "$core,${method:-method},$rest"
		done <"$dir/costs.csv" >"$work/costs"
		csv_table "$work/costs"
		echo "<p>A doorbell is a call of ibv_post_send. tcp has none, and packets of a loopback interface are large ones.</p>"
	fi
	echo '<h3>memory of one connection</h3>'
	if [ -s "$dir/memory.csv" ]; then
		while IFS=, read -r core method _ _ rest; do
			method=$(label "$method" | tr , :)
			echo "$core,${method:-method},$rest"
		done <"$dir/memory.csv" >"$work/memory"
		csv_table "$work/memory"
	fi
	echo "<h3>the provider's instructions for one operation, by callgrind</h3>"
	if [ -s "$dir/instructions.csv" ]; then
		csv_table "$dir/instructions.csv"
	fi
	reasons costs
	reasons memory
	reasons instructions
}

remotelog()
{
	local core

	for core in verbs tcp; do
		[ -s "$dir/remotelog-$core.csv" ] || continue
		echo "<h3>over $core</h3>"
		[ ! -s "$dir/remotelog-$core.svg" ] ||
			inline "log_$core" "$dir/remotelog-$core.svg"
		echo '<details><summary>all figures</summary>'
		csv_table "$dir/remotelog-$core.csv"
		echo '</details>'
		echo "<pre>$(escape <"$dir/remotelog-$core.txt")</pre>"
	done
	reasons remotelog
}

# rpc -- durable calls by different designs; rpc.awk has the tables
rpc()
{
	local core

	for core in verbs tcp; do
		[ -s "$dir/rpc-$core.csv" ] || continue
		echo "<h3>over $core</h3>"
		datamash -t, --header-in -s -g 2,3,4,16 median 19 median 20 median 21 median 22 median 18 median 24 \
			median 25 median 26 count 19 <"$dir/rpc-$core.csv" >"$work/rpc"
		awk -F, -f "$top/fabtests/report/rpc.awk" "$work/rpc"
		plot_rpc "$core"
	done
	reasons rpc
}

# plot_rpc CORE -- calls of 1 KiB per second, by clients
plot_rpc()
{
	local mode n=0
	local -a lines=()

	for mode in pmemrpc pmemrpc-spin darpc darpc-spin octopus farm l5 rfp scalerpc; do
		n=$((n + 1))
		awk -F, -v OFS=' ' -v mode="$mode" '$1 == mode && $2 == "clients" && $4 == "all" { print $3, $5 }' "$work/rpc" |
			sort -n >"$work/line$n"
		[ ! -s "$work/line$n" ] ||
			lines+=("'$work/line$n' using 1:2 with linespoints title '$mode' lw $((n == 1 ? 3 : 1)) lc $n")
	done
	[ ${#lines[@]} -gt 1 ] || return 0
	draw "rpc_$1" "Durable calls of 1 KiB over $1, half of them writes" clients 'calls per second' \
		'set logscale xy; set xtics (2, 4, 8, 16, 32)' "${lines[@]}"
}

# stores -- on chains; stores.awk has the table
stores()
{
	local core

	for core in verbs tcp; do
		[ -s "$dir/stores-$core.csv" ] || continue
		echo "<h3>over $core</h3>"
		datamash -t, --header-in -s -g 1,2,4,5 median 6 median 8 <"$dir/stores-$core.csv" >"$work/stores"
		awk -F, -f "$top/fabtests/report/stores.awk" "$work/stores"
		plot_stores "$core"
	done
	reasons stores
}

# plot_stores CORE -- transactions per second, by skew
plot_stores()
{
	local design durable
	local -a lines=()

	for design in chains farm; do
		for durable in yes no; do
			awk -F, -v OFS=' ' -v design=$design -v durable=$durable '
				$1 == "tx" && $2 == durable && $4 == design { print $3, $6 }' "$work/stores" >"$work/$design-$durable"
			[ ! -s "$work/$design-$durable" ] ||
				lines+=("'$work/$design-$durable' using 1:2 with linespoints title '$design, durable: $durable' lw 2")
		done
	done
	[ ${#lines[@]} -gt 0 ] || return 0
	draw "stores_$1" "YCSB-T over $1" skew 'transactions per second' 'set yrange [0:*]' "${lines[@]}"
}

# clients -- many clients of files; clients.awk has the table
clients()
{
	local kind

	if [ -s "$dir/clients-tcp.csv" ]; then
		datamash -t, --header-in -s -g 1,2,3 median 5 <"$dir/clients-tcp.csv" >"$work/clients"
		awk -F, -f "$top/fabtests/report/clients.awk" "$work/clients"
		for kind in one each; do
			plot_clients $kind
		done
	fi
	reasons clients
}

# plot_clients FILES -- commits per second, by clients
plot_clients()
{
	local row n=0
	local -a lines=()

	for row in ours-file ours-direct ours-dmp nbd mmap direct; do
		n=$((n + 1))
		awk -F, -v OFS=' ' -v row=$row -v files="$1" '$1 == row && $2 == files { print $3, $4 }' "$work/clients" |
			sort -n >"$work/line$n"
		[ ! -s "$work/line$n" ] || lines+=("'$work/line$n' using 1:2 with linespoints title '$row' lw $((n <= 3 ? 3 : 1)) lc $n")
	done
	[ ${#lines[@]} -gt 0 ] || return 0
	draw "clients_$1" "Durable writes of 4 KiB, $([ "$1" = one ] && echo "one file" || echo "a file each")" clients 'commits per second' \
		'set logscale xy; set xtics (1, 2, 4, 16, 64)' "${lines[@]}"
}

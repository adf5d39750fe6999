# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# page-hints.sh -- for report-page: what the measured figures advise on this machine
#
# shellcheck disable=SC2034,SC2154 # report-page and its other parts set these and use them

# compare CORE KEY KEY VALUE -- a ratio in words, or that it was not measured
compare()
{
	awk -F, -v a="$1" -v b="$2" -v value="${3:-9}" '
		{ v[$1 "," $2 "," $3 "," $4 "," $5 "," $6 "," $7 "," $8] = $value }
		END { if (v[a] && v[b]) printf "×%.2f (%.1f and %.1f)", v[a] / v[b], v[a], v[b]; else printf "not measured" }' "$work/medians"
}

# advise KEY KEY LIMIT BELOW ABOVE -- by the ratio of two medians
advise()
{
	awk -F, -v a="$1" -v b="$2" -v limit="$3" -v below="$4" -v above="$5" '
		{ v[$1 "," $2 "," $3 "," $4 "," $5 "," $6 "," $7 "," $8] = $9 }
		END { print v[a] && v[b] ? v[a] / v[b] <= limit ? below : above : "Without a measurement there is no advice." }' "$work/medians"
}

hint()
{
	printf '<tr><td class="l"><b>%s</b></td><td class="l">%s</td><td class="l">%s</td><td class="l">%s</td></tr>\n' "$@"
}

hints()
{
	local core nodes

	core=$(cores | head -n 1)
	nodes=$(fact 'NUMA nodes')
	echo '<table><thead><tr><th></th><th class="l">hint</th><th class="l">measured here</th><th class="l">advice for this machine</th></tr></thead><tbody>'
	if [ "${nodes:-1}" -le 1 ]; then
		hint H1 'No access across sockets' 'nothing: there is one NUMA node' 'Nothing to do here. The agent runs on the node of the memory by itself.'
	else
		hint H1 'No access across sockets' "nothing; there are $nodes NUMA nodes" \
			'Use a NIC and memory of one socket. The agent runs on the node of the memory by itself.'
	fi
	hint H2 "Few of the target's threads write to one DIMM" \
		"8 connections next to 1, rate by the agent, 16 in flight: $(compare "threads,$core,agent,,64,16,8,0" "threads,$core,agent,,64,16,1,0" 15)" \
		'The agent has one thread for each domain, so few threads write. Open no more domains than you need.'
	hint H3 'DDIO off for large one-sided writes; with DDIO on, let the target write' \
		"1 MiB by the agent next to one-sided: $(compare "latency,$core,agent,,1048576,1,1,0" "latency,$core,one-sided,,1048576,1,1,0")" \
		"$(advise "latency,$core,agent,,1048576,1,1,0" "latency,$core,one-sided,,1048576,1,1,0" 1.1 \
			'The agent is as fast as one-sided here: leave DDIO on.' \
			'One-sided is faster here: switch DDIO off if you can, and say so at the target (FI_PMEMVERBS_DDIO=off).')
		Whether DDIO is on can't be read without privileges."
	hint H4 'Non-temporal stores for large copies' 'nothing: no program here copies by other stores' \
		'The agent does so by itself where it copies.'
	hint H5 'Units of 256 bytes for large writes' \
		"1,024 bytes next to 64, one-sided: $(compare "latency,$core,one-sided,,1024,1,1,0" "latency,$core,one-sided,,64,1,1,0")" \
		'Align records of 256 bytes and more to 256 on Optane memory; other memory has no such unit.'
	hint H6 'Units of 64 bytes for small one-sided writes' \
		"8 bytes next to 64, one-sided: $(compare "latency,$core,one-sided,,8,1,1,0" "latency,$core,one-sided,,64,1,1,0")" \
		"$(advise "latency,$core,one-sided,,8,1,1,0" "latency,$core,one-sided,,64,1,1,0" 0.95 \
			'8 bytes are faster here: pad only on memory that reads before it writes less than 64 (Optane).' \
			'8 bytes are not faster here: pad small records to 64.')"
	hint H7 'Units of 64 bytes and non-temporal stores for small writes by the processor' \
		"8 bytes next to 64, by the agent: $(compare "latency,$core,agent,,8,1,1,0" "latency,$core,agent,,64,1,1,0")" \
		"$(advise "latency,$core,agent,,8,1,1,0" "latency,$core,agent,,64,1,1,0" 0.95 \
			'8 bytes are faster here, though the agent writes back whole cache lines: pad only on Optane memory.' \
			'8 bytes are not faster here: pad small records to 64; the agent writes back whole cache lines in any case.')"
	hint H8 'No locks and atomics in persistent memory' 'nothing: no program here measures atomics' \
		'Keep locks in volatile memory. An atomic there needs no commit.'
	hint H9 'Never wait between the write and its flush; one doorbell for both' \
		"bare verbs, awaited next to one doorbell: $(compare "latency,$core,bare-write-then-read,,64,1,1,0" "latency,$core,bare-write-read,,64,1,1,0"); two doorbells next to one: $(compare "latency,$core,bare-two-posts,,64,1,1,0" "latency,$core,bare-write-read,,64,1,1,0")" \
		"The provider has both outstanding in every one-sided commit. $(advise "latency,$core,bare-two-posts,,64,1,1,0" \
			"latency,$core,bare-write-read,,64,1,1,0" 1.05 'The second doorbell costs next to nothing here.' \
			'The second doorbell costs something here: commit once for many writes (fi_pmem_bw -C 16).')"
	echo '</tbody></table>'
}

# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# mend.sh -- a device whose link was cut

# mend -- a new device if that has happened; false: it has not
mend()
{
	rdma resource show qp link rxe0 | grep -q "lqpn 1 .*state ERR" || return
	echo "Soft-RoCE: QP 1 is in error, so the device is made anew"
	rdma link delete rxe0
	rdma link add rxe0 type rxe netdev eth0
}

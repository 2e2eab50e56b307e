// The usage ledger equals the bill of the TPU emulator, in many random worlds. JOBMAN_BILL_SEEDS names the first seed and
// their number (`1,1000`).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { minute } from '../../src/core/model/time.ts';
import { checkBill, checkBillAtIntervals } from '../reports/support/check-bill.ts';

const [first = 1, count = 1_000] = (process.env['JOBMAN_BILL_SEEDS'] ?? '1,1000').split(',').map(Number);

test(`the ledger equals the bill to the cent in ${count} worlds from seed ${first}`, async (t) => {
  const total = { billedUsd: 0, nodes: 0, free: 0, orphans: 0, superseded: 0, late: 0, slices: 0 };
  const failed: string[] = [];
  for (let seed = first; seed < first + count; seed += 1) {
    try {
      const found = await checkBill(seed);
      for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += found[key];
    } catch (error) {
      failed.push(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  t.diagnostic(JSON.stringify(total));
  assert.deepEqual(failed, []);
  // A superseded request that becomes ready is rare; test/reports/usage.test.ts has it.
  const { superseded: _superseded, ...expected } = total;
  if (count >= 200)
    for (const [name, number] of Object.entries(expected)) assert.ok(number > 0, `no world has ${name}`);
});

test('with observations at intervals, each ready period differs by at most one interval at each end', async () => {
  const failed: string[] = [];
  for (let seed = first; seed < first + count / 5; seed += 1) {
    await checkBillAtIntervals(seed, minute / 2).catch((error: Error) => failed.push(`seed ${seed}: ${error.message}`));
  }
  assert.deepEqual(failed, []);
});

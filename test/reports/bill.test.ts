// The usage ledger and the TPU emulator's own bill are two independent accounts of the same nodes.

import { suite, test } from 'node:test';
import { minute } from '../../src/core/model/time.ts';
import { checkBill, checkBillAtIntervals } from './support/check-bill.ts';

suite('with an observation at each change, the ledger equals the bill to the cent', () => {
  for (let seed = 1; seed <= 30; seed += 1) test(`seed ${seed}`, async () => void (await checkBill(seed)));
});

suite('with observations at intervals, each ready period differs by at most one interval at each end', () => {
  for (let seed = 1; seed <= 10; seed += 1) test(`seed ${seed}`, () => checkBillAtIntervals(seed, minute / 2));
});

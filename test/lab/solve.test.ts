// Every problem of `solve`: its facts, message and repair.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { second } from '../../src/core/model/time.ts';
import { type EnvironmentCheck, worstEnvironment, parseFacts, type WorkerFacts } from '../../src/lab/worker-facts.ts';
import { tpuFromName } from '../../src/lab/tpus.ts';
import { problemChecks, findProblems, type Repair, type SolveFacts } from '../../src/lab/solve.ts';
import type { TpuState, WorkerAnswer } from '../../src/lab/tpu-operations.ts';

const share = { source: '10.0.0.2:/home', target: '/home-nfs', zones: [], options: 'vers=3' };
const ready: TpuState = { kind: 'known', state: 'ready', zone: 'us-central2-b', workers: 2 };
const state = (name: string): TpuState => ({ kind: 'known', state: name, zone: 'us-central2-b', workers: 0 });

const healthy: WorkerFacts = {
  worker: 0,
  clockAheadMs: 0,
  disks: [{ path: '/', freeMb: 40_000 }],
  shares: [{ share, state: 'mounted' }],
  hasPython: true,
  lock: null,
  holders: [],
  isLoggedIn: true,
};
const facts: SolveFacts = {
  tpu: tpuFromName('lab-v4-16-1')!,
  site: { shares: [share], python: '/home-nfs/python' },
  state: ready,
  workers: [healthy, { ...healthy, worker: 1 }],
  unresponsive: [],
  environment: null,
};
const broken = (changes: Partial<WorkerFacts>): Partial<SolveFacts> => ({
  workers: [healthy, { ...healthy, worker: 1, ...changes }],
});
const python = (found: EnvironmentCheck['class'], message: string): Partial<SolveFacts> => ({
  environment: { class: found, message, worker: 1 },
});
const holder = { worker: 1, pid: 7, user: 'lyy', command: 'python main.py' };

const rows: readonly (readonly [name: string, facts: Partial<SolveFacts>, message: RegExp, repair: Repair['kind']])[] =
  [
    ['missing', { state: state('absent'), workers: [] }, /does not exist/, 'apply'],
    ['lost', { state: state('preempted'), workers: [] }, /lost \(preempted\)/, 'reapply'],
    ['stopped', { state: state('stopped'), workers: [] }, /is stopped/, 'restart'],
    ['not_ready', { state: state('creating'), workers: [] }, /is being created/, 'wait'],
    [
      'ssh_fails',
      { workers: [healthy], unresponsive: [{ worker: 1, message: 'it no longer answers' }] },
      /^no SSH connection to worker 1: it no longer answers$/,
      'restart',
    ],
    [
      'disk_full',
      broken({ disks: [{ path: '/tmp', freeMb: 12 }] }),
      /^less than 500 MB of disk free on worker 1$/,
      'script',
    ],
    ['wrong_clock', broken({ clockAheadMs: -95 * second }), /^the clock is 95 s off on worker 1$/, 'script'],
    [
      'share_missing',
      broken({ shares: [{ share, state: 'silent' }] }),
      /\/home-nfs \(server does not answer\)/,
      'script',
    ],
    ['wandb_login_missing', broken({ isLoggedIn: false }), /^no login to W&B on worker 1$/, 'login'],
    ['python_missing', broken({ hasPython: false }), /^\/home-nfs\/python does not exist on worker 1$/, 'manual'],
    [
      'device_busy',
      broken({ holders: [holder] }),
      /process 7 on worker 1 \(lyy\) uses the device: python main\.py/,
      'end',
    ],
    [
      'stale_lock_file',
      broken({ lock: { openedBy: [] } }),
      /^the process that made libtpu's lock file on worker 1 is gone$/,
      'script',
    ],
    ['libtpu_in_use', python('occupied', 'already in use'), /worker 1 by an unknown program/, 'restart'],
    [
      'python_hangs',
      python('timeout', 'it did not end'),
      /hangs before it sees the devices: it did not end/,
      'restart',
    ],
    [
      'python_fails',
      python('unknown', 'No module named jax'),
      /worker 1 does not see the devices: No module/,
      'manual',
    ],
  ];

for (const [name, wrong, expected, repair] of rows) {
  test(`${name}: the only problem, repaired by ${repair}`, () => {
    const [found, ...others] = findProblems({ ...facts, ...wrong });
    assert.deepEqual(others, []);
    assert.equal(found?.name, name);
    assert.match(found.message, expected);
    assert.equal(found.repair.kind, repair);
  });
}

test('every problem has a row, in order', () => {
  assert.deepEqual(
    rows.map(([name]) => name),
    Object.keys(problemChecks),
  );
});

test('a healthy TPU, and one in an unknown state, has no problem', () => {
  assert.deepEqual(findProblems(facts), []);
  assert.deepEqual(findProblems({ ...facts, ...python('success', '[TpuDevice(id=0)]') }), []);
  assert.deepEqual(findProblems({ ...facts, state: { kind: 'unknown', message: 'no answer' }, workers: [] }), []);
});

test('problems are in the order of causes; a lock file is stale only if no process uses the chips', () => {
  const both = findProblems({ ...facts, ...broken({ hasPython: false, shares: [{ share, state: 'missing' }] }) });
  assert.deepEqual(
    both.map(({ name }) => name),
    ['share_missing', 'python_missing'],
  );
  const held = findProblems({ ...facts, ...broken({ holders: [holder], lock: { openedBy: [] } }) });
  assert.deepEqual(
    held.map(({ name }) => name),
    ['device_busy'],
  );
  assert.deepEqual(findProblems({ ...facts, ...broken({ lock: { openedBy: [9] } }) }), []);
});

test('a login that every worker refuses, and an unknown mount, need a manual repair', () => {
  for (const message of [
    '34.1.2.3 accepts no available SSH key for the user ada; tried /home/ada/.jobman/ssh/id_ed25519',
    'there is no SSH key for 34.1.2.3: no key file and no agent',
  ]) {
    const refused = findProblems({ ...facts, workers: [], unresponsive: [{ worker: 0, message }] });
    assert.deepEqual(
      refused.map(({ repair }) => repair.kind),
      ['manual'],
      message,
    );
  }
  const [strange] = findProblems({ ...facts, ...broken({ shares: [{ share, state: 'other' }] }) });
  assert.equal(strange?.repair.kind, 'manual');
});

test('parseFacts reads the output of a worker', () => {
  const asked = { shares: [share], hasKey: true, from: 1_000_000, to: 1_000_400 };
  const answer = (output: string): WorkerAnswer => ({ kind: 'ended', worker: 3, code: 0, output });
  const parsed = parseFacts(
    answer('clock\t1002400\ndisk\t/\t2048000\nshare\t0\tother\nlock\t 12 13\nholder\t7\tlyy\tpython\tmain.py\n'),
    asked,
  );
  assert.deepEqual(parsed, {
    worker: 3,
    clockAheadMs: 2_000,
    disks: [{ path: '/', freeMb: 2_000 }],
    shares: [{ share, state: 'other' }],
    hasPython: false,
    lock: { openedBy: [12, 13] },
    holders: [{ worker: 3, pid: 7, user: 'lyy', command: 'python main.py' }],
    isLoggedIn: false,
  });
  assert.equal(parseFacts(answer('clock\t1000200\n'), asked)?.clockAheadMs, 0);
  assert.equal(parseFacts(answer('a banner and nothing else\n'), asked), null);
  assert.equal(parseFacts({ kind: 'no_answer', worker: 3, message: 'gone' }, asked), null);
});

const answers: readonly (readonly [expected: EnvironmentCheck['class'], WorkerAnswer])[] = [
  ['success', { kind: 'ended', worker: 0, code: 0, output: 'warn\n[TpuDevice(id=0, process_index=0)]\n' }],
  ['unknown', { kind: 'ended', worker: 0, code: 0, output: '[CpuDevice(id=0)]\n' }],
  ['unknown', { kind: 'ended', worker: 0, code: 1, output: 'ModuleNotFoundError: No module named jax\n' }],
  ['unknown', { kind: 'ended', worker: 0, code: 0, output: '' }],
  ['file_error', { kind: 'ended', worker: 0, code: 127, output: '/x/python: No such file or directory\n' }],
  ['occupied', { kind: 'ended', worker: 0, code: 1, output: 'RuntimeError: The TPU is already in use by process 7\n' }],
  ['timeout', { kind: 'ended', worker: 0, code: 124, output: '' }],
  ['timeout', { kind: 'no_answer', worker: 0, message: 'it did not end within 150 s' }],
  ['unknown', { kind: 'no_answer', worker: 0, message: '10.0.0.1 refuses connections' }],
];
for (const [expected, answer] of answers) {
  test(`${JSON.stringify(answer)} is ${expected}`, () => {
    assert.equal(worstEnvironment([answer]).class, expected);
    // One failing worker decides for the whole slice.
    const fine = answers[0]![1];
    assert.equal(worstEnvironment([fine, { ...answer, worker: 1 }]).class, expected);
  });
}

// Every case of `solve`: the facts in which it is what is wrong, what it says, and what would put it right.

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

const well: WorkerFacts = {
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
  workers: [well, { ...well, worker: 1 }],
  unresponsive: [],
  environment: null,
};
/** Worker 1 is another than it should be. */
const ill = (more: Partial<WorkerFacts>): Partial<SolveFacts> => ({ workers: [well, { ...well, worker: 1, ...more }] });
const python = (found: EnvironmentCheck['class'], message: string): Partial<SolveFacts> => ({
  environment: { class: found, message, worker: 1 },
});
const holder = { worker: 1, pid: 7, user: 'lyy', command: 'python main.py' };

const rows: readonly (readonly [name: string, facts: Partial<SolveFacts>, message: RegExp, repair: Repair['kind']])[] =
  [
    ['not there', { state: state('absent'), workers: [] }, /no TPU of that name/, 'apply'],
    ['taken away', { state: state('preempted'), workers: [] }, /taken away \(preempted\)/, 'reapply'],
    ['stopped', { state: state('stopped'), workers: [] }, /is stopped/, 'restart'],
    ['under way', { state: state('creating'), workers: [] }, /is creating/, 'wait'],
    [
      'no answer by SSH',
      { workers: [well], unresponsive: [{ worker: 1, message: 'it has stopped answering' }] },
      /^worker 1 has no answer by SSH: it has stopped answering$/,
      'restart',
    ],
    [
      'disk full',
      ill({ disks: [{ path: '/tmp', freeMb: 12 }] }),
      /^worker 1 has less than 500 MB of disk left$/,
      'script',
    ],
    ['clock off', ill({ clockAheadMs: -95 * second }), /^worker 1 has a clock that is 95 s off$/, 'script'],
    [
      'share missing',
      ill({ shares: [{ share, state: 'silent' }] }),
      /\/home-nfs \(its server does not answer\)/,
      'script',
    ],
    ['not logged in to W&B', ill({ isLoggedIn: false }), /^worker 1 has no login to W&B$/, 'login'],
    ['no Python', ill({ hasPython: false }), /^worker 1 has no \/home-nfs\/python$/, 'manual'],
    ['device busy', ill({ holders: [holder] }), /process 7 of lyy on worker 1 \(python main\.py\)/, 'end'],
    [
      'stale lock file',
      ill({ lock: { openedBy: [] } }),
      /^worker 1 has a lock file of libtpu whose owner is dead$/,
      'script',
    ],
    [
      'libtpu in use',
      python('occupied', 'already in use'),
      /worker 1, by a program that does not show itself/,
      'restart',
    ],
    ['Python hangs', python('timeout', 'it did not end'), /does not come to its devices: it did not end/, 'restart'],
    [
      'Python fails',
      python('unknown', 'No module named jax'),
      /worker 1 does not see its devices: No module/,
      'manual',
    ],
  ];

for (const [name, wrong, message, repair] of rows) {
  test(`${name}: it is the one thing that is found, and ${repair} is what would help`, () => {
    const [found, ...others] = findProblems({ ...facts, ...wrong });
    assert.deepEqual(others, []);
    assert.equal(found?.name, name);
    assert.match(found.message, message);
    assert.equal(found.repair.kind, repair);
  });
}

test('every case has a row here, in the order in which they are looked at', () => {
  assert.deepEqual(
    rows.map(([name]) => name),
    Object.keys(problemChecks),
  );
});

test('nothing is found where all is well, and nothing where the cloud does not say', () => {
  assert.deepEqual(findProblems(facts), []);
  assert.deepEqual(findProblems({ ...facts, ...python('success', '[TpuDevice(id=0)]') }), []);
  assert.deepEqual(findProblems({ ...facts, state: { kind: 'unknown', message: 'no answer' }, workers: [] }), []);
});

test('several are told in the order of causes; a lock file is no one’s only while nobody holds the chips', () => {
  const both = findProblems({ ...facts, ...ill({ hasPython: false, shares: [{ share, state: 'missing' }] }) });
  assert.deepEqual(
    both.map(({ name }) => name),
    ['share missing', 'no Python'],
  );
  const held = findProblems({ ...facts, ...ill({ holders: [holder], lock: { openedBy: [] } }) });
  assert.deepEqual(
    held.map(({ name }) => name),
    ['device busy'],
  );
  assert.deepEqual(findProblems({ ...facts, ...ill({ lock: { openedBy: [9] } }) }), []);
});

test('a login that every worker refuses is not mended by a restart, and a strange mount is left to a person', () => {
  for (const text of [
    '34.1.2.3 accepts none of our keys for ada; tried /home/ada/.jobman/ssh/id_ed25519',
    'there is no key to log in to 34.1.2.3 with: no key file and no agent',
  ]) {
    const refused = findProblems({ ...facts, workers: [], unresponsive: [{ worker: 0, message: text }] });
    assert.deepEqual(
      refused.map(({ repair }) => repair.kind),
      ['manual'],
      text,
    );
  }
  const [strange] = findProblems({ ...facts, ...ill({ shares: [{ share, state: 'other' }] }) });
  assert.equal(strange?.repair.kind, 'manual');
});

test('what a worker told is read; what it did not tell is not made up', () => {
  const asked = { shares: [share], hasKey: true, from: 1_000_000, to: 1_000_400 };
  const answer = (output: string): WorkerAnswer => ({ kind: 'ended', worker: 3, code: 0, output });
  const facts = parseFacts(
    answer('clock\t1002400\ndisk\t/\t2048000\nshare\t0\tother\nlock\t 12 13\nholder\t7\tlyy\tpython\tmain.py\n'),
    asked,
  );
  assert.deepEqual(facts, {
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
  ['file error', { kind: 'ended', worker: 0, code: 127, output: '/x/python: No such file or directory\n' }],
  ['occupied', { kind: 'ended', worker: 0, code: 1, output: 'RuntimeError: The TPU is already in use by process 7\n' }],
  ['timeout', { kind: 'ended', worker: 0, code: 124, output: '' }],
  ['timeout', { kind: 'no_answer', worker: 0, message: 'it did not end within 150 s' }],
  ['unknown', { kind: 'no_answer', worker: 0, message: '10.0.0.1 refuses connections' }],
];
for (const [expected, answer] of answers) {
  test(`Python says ${expected} by ${JSON.stringify(answer)}`, () => {
    assert.equal(worstEnvironment([answer]).class, expected);
    // One worker that fails is enough for the whole slice.
    const fine = answers[0]![1];
    assert.equal(worstEnvironment([fine, { ...answer, worker: 1 }]).class, expected);
  });
}

/** The checks of `jobman doctor`: facts in; states, sentences and commands out. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { otherDatabaseRemedy } from '../../src/app/database-url.ts';
import {
  checkClock,
  checkController,
  checkDatabaseError,
  checkData,
  checkDisk,
  checkEndpoints,
  checkHome,
  checkHost,
  checkLogin,
  checkNotifications,
  checkPermissions,
  checkPrivacy,
  checkSettings,
  checkSsh,
  checkVersions,
  ok,
  problem,
  requires,
  runDoctor,
  unknown,
  warning,
  type ControllerFacts,
  type HomeFacts,
  type LoginFacts,
  type Outcome,
  type ReachFacts,
  type SshFacts,
} from '../../src/app/doctor.ts';
import { exitCode, JobmanError, StoreError } from '../../src/app/errors.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { noon } from '../support/builders.ts';

const brief = (outcomes: readonly Outcome[]) => outcomes.map(({ state, remedy }) => [state, remedy]);

suite('the doctor', () => {
  test('runs all checks side by side, and reports them in order', async () => {
    const begun: string[] = [];
    const other = Promise.withResolvers<undefined>();
    const changes: string[] = [];
    const results = await runDoctor(
      {
        one: async () => {
          begun.push('one');
          await other.promise;
          return [ok('first')];
        },
        two: async () => {
          begun.push('two');
          other.resolve(undefined);
          return [ok('second'), ok('third')];
        },
      },
      (running) => changes.push(running.join(' ')),
    );
    assert.deepEqual(begun, ['one', 'two']);
    assert.deepEqual(
      results.map(({ check, message }) => `${check} ${message}`),
      ['one first', 'two second', 'two third'],
    );
    assert.deepEqual(changes, ['one two', 'one', '']);
  });

  test('names the remedy of the connection to a host, else the command that shows the problem', () => {
    const host = { name: 'gpu1', gpus: null, ssh: 'gpu1.lab', command: 'ssh gpu1.lab' };
    const silent = { kind: 'no_answer', reason: 'the key needs ssh-add' } as const;
    const found = [checkHost(host, silent), checkHost(host, { ...silent, remedy: 'ssh-add' })];
    assert.deepEqual(brief(found), [
      ['problem', 'ssh gpu1.lab'],
      ['problem', 'ssh-add'],
    ]);
  });

  test('leaves a check out that needs what another one misses', async () => {
    const run = async () => [ok('it ran')];
    const need = (found: readonly Outcome[]) => ({ what: 'a login', check: async () => found });
    const left = [unknown('it needs a login')];
    assert.deepEqual(await requires([need([ok('x'), warning('y', null)])], run)(), [ok('it ran')]);
    assert.deepEqual(await requires([need([ok('x'), problem('y', null)])], run)(), left);
    assert.deepEqual(await requires([need([unknown('y')])], run)(), left);
    assert.deepEqual(await requires([{ what: 'a login', check: () => Promise.reject(new Error('x')) }], run)(), left);
  });

  test('a check that fails or does not end is unknown, with the reason', async () => {
    const results = await runDoctor(
      {
        refused: () => Promise.reject(new JobmanError('no access.', exitCode.failed, ['chmod x'])),
        broken: () => Promise.reject(new Error('a bug')),
        endless: () => new Promise<never>(() => undefined),
      },
      undefined,
      50,
    );
    assert.deepEqual(
      results.map(({ state, message, remedy }) => [state, message, remedy]),
      [
        ['unknown', 'no access', 'chmod x'],
        ['unknown', 'a bug', null],
        ['unknown', 'it did not finish within 0s', null],
      ],
    );
  });
});

test('each problem of the settings is one outcome', async () => {
  const error = new JobmanError('/s.json has invalid settings.', exitCode.usage, [
    '/s.json:1:3: one',
    '/s.json:2:3: two',
  ]);
  const found = await checkSettings('/s.json', () => Promise.reject(error));
  assert.deepEqual(brief(found), [
    ['problem', '${EDITOR:-vi} /s.json'],
    ['problem', '${EDITOR:-vi} /s.json'],
  ]);
  assert.deepEqual(brief(await checkSettings('/s.json', async () => ({}))), [['ok', null]]);
});

test('secrets, the settings and the database are private, or shared with the group of the home', () => {
  const home = { folder: '/h', mode: 0o40700, isShared: false };
  const file = (path: string, mode: number, isSecret = false) => ({ path, mode, isSecret });
  const files = [file('/h/settings.json', 0o100644), file('/h/state.db', 0o100644), file('/h/url', 0o100600, true)];
  assert.deepEqual(brief(checkPrivacy(home, files)), [['ok', null]]);
  assert.deepEqual(brief(checkPrivacy({ ...home, mode: 0o40755 }, files)), [['warning', 'chmod 700 /h']]);
  assert.deepEqual(brief(checkPrivacy(home, [file('/h/url', 0o100640, true)])), [['problem', 'chmod 600 /h/url']]);
  const shared = { ...home, mode: 0o42770, isShared: true };
  assert.deepEqual(brief(checkPrivacy(shared, [file('/h/url', 0o100660, true)])), [['ok', null]]);
  assert.deepEqual(brief(checkPrivacy(shared, [file('/x/url', 0o100640, true)])), [['problem', 'chmod 600 /x/url']]);
});

test('the home is a folder that this user can read and write', () => {
  const usable: HomeFacts = {
    folder: '/h',
    isNamed: false,
    kind: 'folder',
    isReadable: true,
    isWritable: true,
    isReadOnlyFileSystem: false,
    user: 'ada',
    isOwn: true,
  };
  const remedies: readonly (readonly [
    different: Partial<typeof usable> | { kind: 'absent' | 'other' },
    string | null,
  ])[] = [
    [{}, null],
    [{ kind: 'absent' }, null],
    [{ kind: 'other' }, 'mv /h /h.old'],
    [{ kind: 'other', isNamed: true }, 'unset JOBMAN_HOME'],
    [{ isWritable: false }, 'chmod u+rwx /h'],
    [{ isReadable: false, isOwn: false }, 'sudo chown -R ada /h'],
    [{ isReadable: false, isOwn: false, isNamed: true }, 'unset JOBMAN_HOME'],
    [{ isWritable: false, isReadOnlyFileSystem: true }, 'findmnt --target /h'],
    [{ kind: 'absent', isWritable: false, isOwn: false }, 'sudo install -d -m 700 -o ada /h'],
  ];
  for (const [different, remedy] of remedies)
    assert.deepEqual(
      brief(checkHome({ ...usable, ...different })),
      [[remedy === null ? 'ok' : 'problem', remedy]],
      JSON.stringify(different),
    );
});

test('the data of a server that cannot be read or written is a problem, with the logs that wait', () => {
  const location = 'gs://lab/jobman';
  const [fine] = checkData({ location, failure: null, waiting: 0 });
  assert.deepEqual([fine?.state, fine?.message], ['ok', 'gs://lab/jobman can be read and written']);
  const [broken] = checkData({ location, failure: 'gs://lab/jobman cannot be used: HTTP 503.', waiting: 2 });
  assert.equal(broken?.state, 'problem');
  assert.equal(broken?.message, 'gs://lab/jobman cannot be used: HTTP 503; the logs of 2 jobs wait in the home');
});

test('the disk needs space and files', () => {
  const facts = { folder: '/h', freeBytes: 80e9, freeFiles: 1e6 };
  const state = (different: Partial<typeof facts>) => checkDisk({ ...facts, ...different })[0]?.state;
  assert.equal(state({}), 'ok');
  assert.equal(state({ freeBytes: 2e9 }), 'warning');
  assert.equal(state({ freeBytes: 2e8 }), 'problem');
  assert.equal(state({ freeFiles: 10 }), 'problem');
});

test('a database that cannot be used names one command that repairs it', () => {
  const damaged = new StoreError('corrupt', 'The database is damaged.', [
    'First: jobman controller stop',
    'To restore the backup of 2026-11-21T08:00:00.000Z: cd /h && mv a b',
    'The files of each job are in /h/jobs/.',
  ]);
  assert.equal(checkDatabaseError(damaged, null).remedy, 'jobman controller stop; cd /h && mv a b');
  const newer = new StoreError('newer', 'The database was written by a newer jobman.');
  assert.equal(checkDatabaseError(newer, 'git pull').remedy, 'git pull');
  const copied = new StoreError('copied', 'This home is a copy.', ['use the original']);
  assert.equal(checkDatabaseError(copied, null).remedy, 'use the original');
});

suite('the controller', () => {
  const healthy: ControllerFacts = {
    running: true,
    pid: 7,
    version: '1.0.0',
    isOutdated: false,
    otherDatabase: null,
    ownVersion: '1.0.0',
    unfinishedJobs: 2,
    undelivered: 0,
    held: null,
    silentSinceAt: null,
    leaseExpiresAt: noon + minute,
    now: noon,
  };
  const check = (different: Partial<ControllerFacts> = {}) => brief(checkController({ ...healthy, ...different }));

  test('is healthy, or not needed', () => {
    assert.deepEqual(check(), [['ok', null]]);
    assert.deepEqual(check({ running: false, unfinishedJobs: 0 }), [['ok', null]]);
  });

  test('is missing, has another version, or has lost its lease', () => {
    const start = [['problem', 'jobman controller start']];
    assert.deepEqual(check({ running: false }), start);
    assert.deepEqual(check({ running: false, unfinishedJobs: 0, undelivered: 3 }), start, 'nothing sends events');
    const message = '1 TPU is still held: job 7 (stopped)';
    const held = { tpus: 1, requests: 0, pricePerHourUsd: null, message, release: ['jobman stop 7 --release'] };
    const release = ['warning', 'jobman stop 7 --release    releases it'];
    assert.deepEqual(check({ running: false, held }), [['problem', 'jobman controller start'], release]);
    assert.deepEqual(check({ running: false, unfinishedJobs: 0, held }), [release]);
    const restart = [['problem', 'jobman controller restart']];
    assert.deepEqual(check({ version: '0.9.0' }), restart);
    assert.deepEqual(check({ isOutdated: true }), restart);
    // A process that hangs does not answer a request to exit.
    const kill = [['problem', 'kill -KILL 7; jobman controller start']];
    assert.deepEqual(check({ silentSinceAt: noon - minute }), kill);
    // With a read-only or full database it runs, and will renew its lease.
    const waits = [['problem', 'jobman controller logs']];
    assert.deepEqual(check({ leaseExpiresAt: noon - second }), waits);
    assert.deepEqual(check({ leaseExpiresAt: null }), waits);
    const other = { otherDatabase: 'state.db', leaseExpiresAt: null };
    assert.deepEqual(check(other), [['problem', otherDatabaseRemedy]], 'it works, for another database');
  });
});

test('SSH needs a private key with a private mode, and an agent that answers if there is one', () => {
  const healthy: SshFacts = {
    keyFile: '/h/ssh/id_ed25519',
    keyMode: 0o100600,
    isKeyReadable: true,
    keyOwner: null,
    keyProblem: null,
    folderMode: 0o40700,
    agent: { failure: null },
    program: 'OpenSSH_9.2p1',
  };
  const check = (different: Partial<SshFacts>) => brief(checkSsh({ ...healthy, ...different }));
  assert.deepEqual(check({}), [['ok', null]]);
  assert.deepEqual(check({ keyMode: null, folderMode: null, agent: 'none' }), [['ok', null]]);
  assert.deepEqual(check({ keyMode: 0o100644 }), [['problem', 'chmod 600 /h/ssh/id_ed25519']]);
  assert.deepEqual(check({ isKeyReadable: false }), [['problem', 'ls -l /h/ssh/id_ed25519']]);
  assert.deepEqual(
    check({ isKeyReadable: false, keyOwner: 'ada' }),
    [['ok', null]],
    'the first login of a shared home',
  );
  assert.deepEqual(check({ keyProblem: 'it is not a key' }), [
    ['problem', 'mv /h/ssh/id_ed25519 /h/ssh/id_ed25519.old'],
  ]);
  assert.deepEqual(check({ folderMode: 0o40777 }), [['problem', 'chmod o-w /h/ssh']]);
  assert.deepEqual(check({ folderMode: 0o42770 }), [['ok', null]], 'a home that a group shares');
  assert.equal(check({ agent: { failure: 'ENOENT' } })[0]?.[0], 'warning');
  assert.equal(check({ program: null })[0]?.[0], 'warning');
});

test('versions are listed; a newer jobman is a warning', () => {
  const facts = { node: 'Node.js 26', jobman: '1.0.0', isBundle: true, newer: null, upgrade: null, programs: [] };
  assert.deepEqual(checkVersions(facts), [ok('jobman 1.0.0, Node.js 26')]);
  assert.deepEqual(checkVersions({ ...facts, programs: ['Google Cloud SDK 528.0.0'] }), [
    ok('jobman 1.0.0, Node.js 26, Google Cloud SDK 528.0.0'),
  ]);
  const newer = checkVersions({ ...facts, newer: 'jobman 2 exists.', upgrade: 'git pull' });
  assert.deepEqual(brief(newer), [
    ['ok', null],
    ['warning', 'git pull'],
  ]);
});

suite('the login', () => {
  const file = { kind: 'file', file: '/k.json', isNamed: false, account: 'ada@b.c' } as const;
  const service = { ...file, account: 'bot@lab.iam.gserviceaccount.com' };
  const gcloud = { kind: 'gcloud', account: null } as const;
  const login = (different: Partial<LoginFacts>) =>
    checkLogin({ source: file, state: 'refused', reason: 'invalid_grant', isClockWrong: false, ...different });

  const user = 'gcloud auth application-default login';
  const repairs: readonly (readonly [Partial<LoginFacts>, Outcome['state'], string | null])[] = [
    [{ state: 'accepted' }, 'ok', null],
    [{}, 'problem', user],
    [{ source: gcloud }, 'problem', user],
    [{ source: { ...file, isNamed: true } }, 'problem', `unset GOOGLE_APPLICATION_CREDENTIALS; ${user}`],
    [
      { source: service },
      'problem',
      'gcloud iam service-accounts keys create /k.json --iam-account bot@lab.iam.gserviceaccount.com',
    ],
    [{ source: { kind: 'command' } }, 'problem', 'sh -c "$(jobman settings get tpu.tokenCommand)"'],
    [{ source: gcloud, reason: 'spawn gcloud ENOENT' }, 'problem', 'https://cloud.google.com/sdk/docs/install'],
    [{ state: 'silent', reason: 'no answer' }, 'problem', 'curl -sv https://oauth2.googleapis.com'],
    [{ isClockWrong: true }, 'unknown', null],
  ];
  for (const [different, state, remedy] of repairs)
    test(`${JSON.stringify(different)} is ${state}`, () => {
      assert.deepEqual(brief(login(different)), [[state, remedy]]);
    });

  test('names the file, its account and the first line of the reason', () => {
    const [found] = login({ reason: 'ERROR: (gcloud.auth) No account.\nPlease run:\n\n  $ gcloud auth login' });
    assert.equal(found?.message, '/k.json (ada@b.c) provides no login that Google Cloud accepts: No account');
  });
});

suite('servers', () => {
  const server = (different: Partial<ReachFacts> = {}): ReachFacts => ({
    name: 'the Cloud TPU API',
    url: 'https://tpu.example',
    failure: null,
    skewMs: 200,
    ...different,
  });

  test('that do not answer for one reason are one problem', () => {
    assert.equal(checkEndpoints([server()], null)[0]?.state, 'ok');
    const storage = { name: 'Cloud Storage', url: 'https://storage.example' };
    const silent = (failure: string) => [
      server({ failure: failure.replace('HOST', 'tpu.example') }),
      server({ ...storage, failure: failure.replace('HOST', 'storage.example') }),
    ];
    const messages = (failure: string, proxy: string | null = null) =>
      checkEndpoints(silent(failure), proxy).map(({ message }) => message);
    assert.deepEqual(messages('timed out'), ['no answer from tpu.example and storage.example: timed out']);
    assert.deepEqual(messages('no tunnel to HOST: HTTP 407', 'HTTPS_PROXY'), [
      'no answer from tpu.example and storage.example through the proxy of HTTPS_PROXY: no tunnel to the server: HTTP 407',
    ]);
    assert.match(messages('self-signed certificate')[0] ?? '', /NODE_EXTRA_CA_CERTS/);
    assert.deepEqual(brief(checkEndpoints(silent('timed out'), null)), [['problem', 'curl -sv https://tpu.example']]);
    assert.equal(checkEndpoints([], null)[0]?.state, 'ok');
  });

  test('report the time; without any answer the clock is unknown', () => {
    assert.equal(checkClock([server()])[0]?.state, 'ok');
    assert.match(checkClock([server({ skewMs: 400 * second })])[0]?.message ?? '', /400 s behind/);
    assert.match(checkClock([server({ skewMs: -400 * second })])[0]?.message ?? '', /400 s ahead of/);
    // One wrong server does not prove that this clock is wrong.
    assert.equal(checkClock([server({ skewMs: 400 * second }), server()])[0]?.state, 'ok');
    assert.equal(checkClock([server({ skewMs: null })])[0]?.state, 'unknown');
    assert.equal(checkClock([])[0]?.state, 'ok');
  });
});

test('missing permissions are named, with the command that grants them', () => {
  assert.deepEqual(brief(checkPermissions('lab', [], 'a@b.c')), [['ok', null]]);
  const [required, optional] = checkPermissions('lab', ['tpu.nodes.create', 'cloudquotas.quotas.get'], 'a@b.c');
  assert.equal(required?.state, 'problem');
  assert.match(required.message, /^lab: missing tpu\.nodes\.create, /);
  assert.equal(
    required.remedy,
    "gcloud projects add-iam-policy-binding lab --member 'user:a@b.c' --role roles/tpu.admin".replaceAll("'", ''),
  );
  assert.equal(optional?.state, 'warning');
  assert.match(optional.message, /cloudquotas\.quotas\.get, which `jobman quota` needs$/);
});

test('a service account is a member of its own kind', () => {
  const [missing] = checkPermissions('lab', ['tpu.nodes.create'], 'bot@lab.iam.gserviceaccount.com');
  assert.match(missing?.remedy ?? '', /--member serviceAccount:bot@lab\.iam\.gserviceaccount\.com /);
});

test('a recipient whose newest message was not delivered is a problem', () => {
  const sent = { recipient: 'slack', error: null, state: 'sent' } as const;
  const failed = { recipient: 'slack', error: 'HTTP 404.', state: 'given_up' } as const;
  assert.deepEqual(brief(checkNotifications([], [])), [['ok', null]]);
  assert.deepEqual(brief(checkNotifications(['slack'], [])), [['ok', null]]);
  assert.deepEqual(brief(checkNotifications(['slack'], [sent, failed])), [['ok', null]]);
  assert.deepEqual(brief(checkNotifications(['slack'], [failed, sent])), [['problem', 'jobman notify test slack']]);
  const missing = [{ recipient: 'slack', problem: 'the file /x does not exist' }];
  const sentNext = { recipient: 'slack', phrase: '1 event for slack is in the next message' };
  const [broken, held] = checkNotifications(['slack'], [failed], [sentNext], missing);
  assert.equal(broken?.message, 'no message can reach slack: the file /x does not exist');
  assert.deepEqual([held?.state, held?.message], ['ok', '1 event for slack is in the next message']);
  const waiting = { recipient: 'teams', phrase: '3 events for teams are held' };
  const used = { recipient: 'teams', jobs: ['000007'], events: 3 };
  assert.deepEqual(checkNotifications([], [], [waiting], [], [used]), [
    {
      state: 'problem',
      message:
        'with these settings no message can reach teams, the recipient of 3 undelivered events and the unfinished job 000007',
      remedy: 'jobman settings set notify.channels.teams VALUE, or drop the events: jobman notify drop teams',
    },
  ]);
  const pending = checkNotifications(['slack'], [{ ...failed, state: 'pending' }]);
  assert.equal(pending[0]?.message, 'the newest message to slack is not delivered yet: HTTP 404');
});

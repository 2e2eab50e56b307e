/**
 * Bad input and bad clusters, at the command line and a real API server: one clear message, the right exit code, nothing
 * changed. What a healthy cluster does not answer (busy, broken, gone for a while) a door before it does.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { changedKubeconfig, openKube, type Kube } from '../support/kube.ts';
import { administrator, leastRights, type Person } from '../support/kube-people.ts';
import { openKubeProxy, statusAnswer, type Answer } from '../support/kube-proxy.ts';
import type { Ended } from '../support/jobman.ts';
import { openWorld, type World } from '../support/world.ts';

const tiny = '{"name":"tiny","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';
const plain = ['submit', '-q', '-i', 'alpine', '-r', tiny];

/** One wrong line: its words, its exit code, and what its message says. */
type Wrong = readonly [words: readonly string[], code: number, says: RegExp];

/** The Jobs of the namespace, by kubectl. */
const jobsOf = (kube: Kube): string => kube.kubectl('get', 'jobs', '-o', 'name').trim();

async function isWrong(person: Person, [words, code, says]: Wrong): Promise<void> {
  const ended = await person.ask(words);
  const said = `jobman ${words.join(' ')}\n${ended.stdout}${ended.stderr}`;
  assert.equal(ended.code, code, said);
  assert.match(ended.stderr, says, said);
  assert.equal(ended.stdout, '', said);
  // One message: an unexpected failure of our own would be told with a stack.
  assert.equal(ended.stderr.split('\n').filter((line) => line.startsWith('jobman: ')).length, 1, said);
  assert.doesNotMatch(ended.stderr, /^ +at /m, said);
}

suite('what was typed', () => {
  test('is wrong before any cluster is asked', async (t) => {
    const { world, kube, taken, person } = await openDoor(t);
    if (kube === undefined) return;
    const file = (name: string, text: string): string => {
      writeFileSync(join(world.folder, name), text);
      return name;
    };
    const trailing = file(
      'trailing.json',
      '{\n  "name": "no-gpu",\n  "resources": {\n    "requests": { "cpu": "1" },\n  }\n}\n',
    );
    const seed = file('seed.json', '{\n    "name": "no-gpu"\n    "resources": {\n    }\n}\n');
    const nameless = file('nameless.json', '{ "resources": { "requests": { "cpu": "1" } } }');
    const manifest = file('train.yaml', 'job:\n  name: Train\nkubernetes:\n  image: alpine\n');
    const long = 'a'.repeat(64);
    const lines: readonly Wrong[] = [
      [[...plain, '-j', 'Train_7', '--', 'ls'], 2, /`Train_7`: .*small letters.*did you mean train-7\?/],
      [[...plain, '-j', long, '--', 'ls'], 2, /it is 64 characters long, and Kubernetes takes 63/],
      [
        ['submit', '-q', '-i', 'alpine', '-r', trailing, '--', 'ls'],
        2,
        /trailing\.json:4:31: no comma may stand after the last one/,
      ],
      [['submit', '-q', '-i', 'alpine', '-r', seed, '--', 'ls'], 2, /seed\.json:3:5: /],
      [['submit', '-q', '-i', 'alpine', '-r', nameless, '--', 'ls'], 2, /nameless\.json:1:1: a flavor needs a "name"/],
      [
        ['submit', '-q', '-i', 'alpine', '-r', '{"name":"x","resources":{}}', '--', 'ls'],
        2,
        /flavor:1:25: "resources" needs "requests"/,
      ],
      [
        ['submit', '-q', '-i', 'alpine', '-r', 'no-gpi', '--', 'ls'],
        3,
        /There is no flavor no-gpi, .*Did you mean no-gpu\?/,
      ],
      [
        [...plain, '-a', '{"team": "vision",}', '--', 'ls'],
        2,
        /annotations:1:18: no comma may stand after the last one/,
      ],
      [
        [...plain, '-a', '{"a": 1, "b": true, "c": {"d": "e"}}', '--', 'ls'],
        2,
        /annotations:1:7: "a" should be a text, and is 1; write "1"\n.*:1:15: "b" .*write "true"\n.*:1:26: "c" should be a text/,
      ],
      [[...plain, '-a', '["team"]', '--', 'ls'], 2, /The annotations are no object/],
      [['submit', '-q', '-i', '', '-r', tiny, '--', 'ls'], 2, /image/],
      [['submit', '-q', '-i', 'al pine', '-r', tiny, '--', 'ls'], 2, /al pine/],
      [['submit', '-q', '-r', tiny, '--', 'ls'], 2, /No image is named: say it with -i, or set job\.defaultImage/],
      [[...plain, 'ls'], 2, /Unexpected argument `ls`/],
      [
        ['submit', '-q', '-i', 'alpine', '-r', '{"name":"x","resources":{"requests":{"gpu":1}}}', '--', 'ls'],
        2,
        /did you mean "nvidia\.com\/gpu"/,
      ],
      [['submit', '-q', '-f', manifest], 2, /train\.yaml:2:9 job\.name: "Train" is no name in Kubernetes/],
      [[...plain, '-f', 'nowhere.yaml'], 2, /nowhere\.yaml/],
      [['details'], 2, /which job|Which job/],
      [['delete', '-j', 'one', '--all'], 2, /--all/],
      [['-s', 'nowhere.json', 'list'], 2, /nowhere\.json/],
    ];
    for (const line of lines) await isWrong(person, line);
    assert.deepEqual(taken(), [], 'the cluster was asked');
    assert.equal(jobsOf(kube), '');
  });

  test('an image may have a digest', async (t) => {
    const { kube, person } = await openDoor(t);
    if (kube === undefined) return;
    const image = `registry.example:5000/lab/train@sha256:${'0'.repeat(64)}`;
    const ended = await person.ask(['submit', '-q', '-i', image, '-r', tiny, '-j', 'digest', '--suspend', '--', 'ls']);
    assert.deepEqual([ended.code, ended.stdout], [0, 'digest\n'], ended.stderr);
    const path = 'jsonpath={.spec.template.spec.containers[0].image}';
    assert.equal(kube.kubectl('get', 'job', 'digest', '-o', path), image);
    const short = await person.ask(['submit', '-i', 'alpine@sha256:00', '-r', tiny, '--dry-run', '--', 'ls']);
    assert.equal(short.code, 2);
    assert.match(short.stderr, /alpine@sha256:00/);
  });

  test('is wrong for the cluster: its words stand with the flag that they are about', async (t) => {
    const { kube, person } = await openDoor(t);
    if (kube === undefined) return;
    const lines: readonly Wrong[] = [
      [[...plain, '--parallelism', '200000', '--', 'ls'], 2, /\n  --parallelism: spec\.parallelism: Invalid value/],
      [[...plain, '--env', 'a b=c', '--', 'ls'], 2, /--env/],
      [[...plain, '--service-account', 'No_Body', '--', 'ls'], 2, /--service-account/],
      [[...plain, '--volume', 'Data_Set:/data', '--', 'ls'], 2, /--volume/],
      [[...plain, '-a', '{"Team Vision": "x"}', '--', 'ls'], 2, /annotations:1:2: /],
      [[...plain, '--workdir', 'data', '--', 'ls'], 2, /--workdir|working directory/],
    ];
    for (const line of lines) await isWrong(person, line);
    assert.equal(jobsOf(kube), '');

    assert.equal((await person.ask([...plain, '-j', 'taken', '--suspend', '--', 'ls'])).code, 0);
    const before = kube.kubectl('get', 'job', 'taken', '-o', 'json');
    await isWrong(person, [
      [...plain, '-j', 'taken', '--', 'ls'],
      4,
      /The name taken is taken in .*\n  -j taken-2 is free/,
    ]);
    assert.equal(kube.kubectl('get', 'job', 'taken', '-o', 'json'), before);
  });
});

suite('where it is sent', () => {
  test('no kubeconfig, another context, no namespace, an unknown authority, a login that is not accepted', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const person = administrator(world, kube);
    const submit = [...plain, '--', 'ls'];
    const as = async (kubeconfig: string, wrong: Wrong): Promise<void> =>
      isWrong({ ...person, ask: (words) => person.ask(words, { env: { KUBECONFIG: kubeconfig } }) }, wrong);
    const changed = (change: Parameters<typeof changedKubeconfig>[2]): string =>
      changedKubeconfig(world, person.kubeconfig, change);

    await as(join(world.folder, 'none'), [
      submit,
      5,
      /No cluster is known here: there is no kubeconfig .*\n  Whoever runs/,
    ]);
    await isWrong(person, [
      [...plain, '--context', 'jobman-tset', '--', 'ls'],
      3,
      /has no context jobman-tset\.\n  (?:Did you mean|There is)/,
    ]);
    await isWrong(person, [
      [...plain, '-n', 'nowhere-at-all', '--', 'ls'],
      3,
      /There is no namespace nowhere-at-all in /,
    ]);
    const noContext = join(world.folder, 'no-context');
    writeFileSync(noContext, 'apiVersion: v1\nkind: Config\n');
    await as(noContext, [submit, 5, /chooses no context/]);
    const noYaml = join(world.folder, 'no-yaml');
    writeFileSync(noYaml, 'clusters: [\n');
    await as(noYaml, [submit, 2, /is no YAML/]);

    const unknown = changed(({ clusters }) => {
      for (const { cluster } of clusters) delete cluster['certificate-authority-data'];
    });
    await as(unknown, [submit, 5, /the certificate of https:.* is of an authority that is not known here/]);
    const elsewhere = changed(({ clusters }) => {
      for (const { cluster } of clusters) cluster['tls-server-name'] = 'elsewhere.example';
    });
    await as(elsewhere, [submit, 5, /the certificate of https:/]);
    const expired = changed(({ users }) => {
      for (const one of users) one.user = { token: 'long-gone' };
    });
    for (const words of [
      submit,
      ['details', '-j', 'x'],
      ['logs', '-j', 'x'],
      ['delete', '-j', 'x'],
      ['delete', '--all', '--yes'],
    ]) {
      await as(expired, [
        words,
        5,
        /does not accept the login of .*\n(?:.*\n)*  It has expired or is wrong: log in again/,
      ]);
    }
    // Whose end is known is told so.
    const claims = { sub: 'system:serviceaccount:vision:ada', exp: Date.UTC(2020, 0, 2, 3, 4, 5) / 1_000 };
    const worn = ['{"alg":"RS256"}', JSON.stringify(claims), 'x'].map((part) =>
      Buffer.from(part).toString('base64url'),
    );
    const ended = changed(({ users }) => {
      for (const one of users) one.user = { token: worn.join('.') };
    });
    await as(ended, [
      submit,
      5,
      /does not accept the login of system:serviceaccount:vision:ada\.\n  It expired on 2 Jan 2020 03:04:05 UTC: log in again/,
    ]);
    const failing = changed(({ users }) => {
      for (const one of users) {
        one.user = {
          exec: {
            apiVersion: 'client.authentication.k8s.io/v1',
            command: 'sh',
            args: ['-c', 'echo no session >&2; exit 7'],
            interactiveMode: 'Never',
          },
        };
      }
    });
    await as(failing, [submit, 5, /no session/]);
    const away = changed(({ clusters }) => {
      for (const { cluster } of clusters) cluster['server'] = 'https://127.0.0.1:9';
    });
    await as(away, [submit, 5, /did not answer/]);
    // Without any other job the cluster was all that `list` could show, so its trouble is the answer.
    for (const kubeconfig of [away, expired, unknown]) {
      const listed = await person.ask(['list'], { env: { KUBECONFIG: kubeconfig } });
      assert.equal(listed.code, 5, listed.stderr);
      assert.match(listed.stdout + listed.stderr, /The cluster of .* is not shown: /);
    }
    assert.equal(jobsOf(kube), '');
  });

  test('a missing right is named, and for whom it is missing', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const nobody = leastRights(world, kube);
    kube.kubectl('delete', 'rolebinding', 'researcher');
    kube.kubectl('create', 'job', 'there', '--image=alpine', '--', 'true');
    const who = `system:serviceaccount:${kube.namespace}:researcher`;
    const may = (verb: string): RegExp =>
      new RegExp(
        `${who} may not ${verb} jobs in the namespace ${kube.namespace} of .*\\n  Missing is the right \`${verb}\` on jobs\\.batch`,
      );
    const at = ['--namespace', kube.namespace];
    await isWrong(nobody, [[...plain, '--', 'ls'], 1, may('create')]);
    await isWrong(nobody, [['details', '-j', 'there', ...at], 1, may('get')]);
    await isWrong(nobody, [['delete', '-j', 'there', ...at], 1, may('get')]);
    await isWrong(nobody, [['delete', '--all', '--yes', ...at], 1, may('list')]);
    const listed = await nobody.ask(['list']);
    assert.equal(listed.code, 1, 'there is no other job to show');
    assert.match(listed.stdout + listed.stderr, /is not shown: .*may not list jobs/);
    assert.equal(jobsOf(kube), 'job.batch/there');
  });
});

suite('a cluster that is busy, broken or away', () => {
  const busy: Answer = { ...statusAnswer(429, 'TooManyRequests', 'too many'), headers: { 'retry-after': '1' } };
  const broken: Answer = { code: 503, body: '<html>no upstream</html>' };
  const isCreate = (method: string): boolean => method === 'POST';

  test('is asked again within limits', async (t) => {
    const { kube, proxy, person } = await openDoor(t);
    if (kube === undefined || proxy === undefined) return;
    for (const answer of [busy, broken]) {
      let left = 2;
      proxy.decide(({ method }) => ((method === 'GET' || answer === busy) && (left -= 1) >= 0 ? answer : undefined));
      const name = `patient-${answer.code}`;
      const made = await person.ask([...plain, '-j', name, '--suspend', '--', 'ls']);
      assert.deepEqual([made.code, made.stdout], [0, `${name}\n`], made.stderr);
      left = 2;
      assert.equal((await person.ask(['details', '-j', name])).code, 0);
      assert.ok(left <= 0, 'the answer was never given');
    }
    const before = jobsOf(kube);
    for (const answer of [busy, broken]) {
      proxy.decide(() => answer);
      proxy.taken();
      const says = new RegExp(`is too busy or broken \\(HTTP ${answer.code}\\)`);
      await isWrong(person, [['details', '-j', `patient-${answer.code}`, '--namespace', kube.namespace], 5, says]);
      const asked: number = proxy.taken().length;
      assert.ok(asked > 1 && asked <= 5, `${asked} requests`);
      await isWrong(person, [[...plain, '-j', 'never', '--', 'ls'], 5, says]);
      assert.ok(proxy.taken().length <= 15);
    }
    proxy.decide(() => undefined);
    assert.equal(jobsOf(kube), before);
  });

  test('a creation whose reply was lost is looked for, and not made twice', async (t) => {
    const { kube, proxy, person } = await openDoor(t);
    if (kube === undefined || proxy === undefined) return;
    // The request has arrived and been done; the reply is a gateway's.
    let left = 1;
    proxy.decide(({ method }) => (isCreate(method) && (left -= 1) >= 0 ? { after: broken } : undefined));
    const made = await person.ask([...plain, '-j', 'once', '--suspend', '--', 'ls']);
    assert.deepEqual([made.code, made.stdout], [0, 'once\n'], made.stderr);
    left = 1;
    proxy.decide(({ method }) => (isCreate(method) && (left -= 1) >= 0 ? { after: 'cut' } : undefined));
    const cut = await person.ask([...plain, '-j', 'once-more', '--suspend', '--', 'ls']);
    assert.deepEqual([cut.code, cut.stdout], [0, 'once-more\n'], cut.stderr);
    // The request never arrived.
    left = 1;
    proxy.decide(({ method }) => (isCreate(method) && (left -= 1) >= 0 ? 'cut' : undefined));
    const again = await person.ask([...plain, '-j', 'again', '--suspend', '--', 'ls']);
    assert.deepEqual([again.code, again.stdout], [0, 'again\n'], again.stderr);
    assert.deepEqual(jobsOf(kube).split('\n').toSorted(), ['job.batch/again', 'job.batch/once', 'job.batch/once-more']);
  });

  test('a list that grew too old in the middle goes on as it is now', async (t) => {
    const { kube, proxy, person } = await openDoor(t);
    if (kube === undefined || proxy === undefined) return;
    const names = ['one', 'two', 'three', 'four', 'five'];
    for (const name of names) kube.kubectl('create', 'job', name, '--image=alpine', '--', 'true');
    let expired = 0;
    proxy.decide(({ path }) => {
      if (!path.includes('/jobs?')) return undefined;
      const token = new URL(path, 'http://door').searchParams.get('continue');
      if (token !== null && expired === 0) {
        expired += 1;
        // As an API server does: the token that it gives goes on at the same key, of no version.
        const inside = JSON.parse(Buffer.from(token, 'base64url').toString()) as object;
        const next = Buffer.from(JSON.stringify({ ...inside, rv: -1 })).toString('base64url');
        return statusAnswer(410, 'Expired', 'The provided continue parameter is too old', {
          metadata: { continue: next },
        });
      }
      return { path: path.replace('limit=500', 'limit=2') };
    });
    const listed = await person.ask(['list', '--all', '--json']);
    assert.equal(listed.code, 0, listed.stderr);
    const found = listed.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { name: string }).name);
    assert.deepEqual(found.toSorted(), names.toSorted(), listed.stderr);
    assert.equal(expired, 1);
  });

  test('that has forgotten where a watch was tells all anew: wait and list --watch miss nothing', async (t) => {
    const { kube, proxy, person } = await openDoor(t);
    if (kube === undefined || proxy === undefined) return;
    for (const [name, length] of [
      ['held', '8'],
      ['other', '600'],
    ] as const) {
      const made = await person.ask([...plain, '-j', name, '--', 'sleep', length]);
      assert.equal(made.code, 0, made.stderr);
    }
    const expired = { code: 410, kind: 'Status', reason: 'Expired', message: 'too old resource version: 1 (2)' };
    const inside = { code: 200, body: `${JSON.stringify({ type: 'ERROR', object: expired })}\n` };
    const watches: Record<string, number> = {};
    proxy.decide(({ path }) => {
      if (!path.includes('watch=true')) return undefined;
      const of = new URL(path, 'http://door').searchParams.get('fieldSelector') ?? 'all';
      const count = (watches[of] ?? 0) + 1;
      watches[of] = count;
      // Refused at once, then in the middle: an API server does either.
      if (count === 1) return statusAnswer(410, expired.reason, expired.message);
      if (count > 2) return undefined;
      // Nobody watches in this moment.
      if (of === 'metadata.name=other') kube.kubectl('delete', 'job', 'other', '--wait=false');
      return inside;
    });
    const watching = person.start(['list', '--watch', '--json']);
    const waiting = person.start(['wait', 'held', 'other']);
    const waited = await waiting.ended;
    // One was deleted, and that is no success.
    assert.equal(waited.code, 1, waited.stderr);
    assert.match(waited.stdout, /^held succeeded /m);
    assert.match(waited.stderr, /^(?:jobman: )?other was deleted meanwhile\.$/m);
    await watching.prints(/"id":"held".*"phase":"succeeded"/, 60_000);
    watching.child.kill('SIGINT');
    const seen = await watching.ended;
    assert.equal(seen.code, 130);
    assert.doesNotMatch(
      seen.stderr + waited.stderr,
      /does not answer|410|Expired/,
      'nothing that a person has to know',
    );
    for (const what of ['all', 'metadata.name=held', 'metadata.name=other']) {
      assert.ok((watches[what] ?? 0) >= 2, JSON.stringify(watches));
    }
  });

  test('that dies while a log is followed is waited for: nothing is lost, nothing comes twice', async (t) => {
    const { kube, proxy, person } = await openDoor(t);
    if (kube === undefined || proxy === undefined) return;
    const program = 'i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; sleep 0.2; done';
    const following = person.start([
      ...plain.filter((word) => word !== '-q'),
      '-j',
      'talker',
      '--follow',
      '--',
      'sh',
      '-c',
      program,
    ]);
    await following.prints('line 5\n', 60_000);
    await proxy.close();
    await following.prints(/does not answer|Still trying/, 60_000);
    await proxy.open();
    const ended: Ended = await following.ended;
    assert.equal(ended.code, 0, ended.stderr);
    const [first, ...lines] = ended.stdout.trim().split('\n');
    assert.match(first ?? '', /^talker submitted to /);
    assert.deepEqual(
      lines,
      Array.from({ length: 60 }, (_, index) => `line ${index + 1}`),
      ended.stderr,
    );
    assert.match(ended.stderr, /The cluster answers again\./);
  });
});

interface Door {
  readonly world: World;
  readonly kube: Kube | undefined;
  readonly proxy: Awaited<ReturnType<typeof openKubeProxy>> | undefined;
  readonly taken: () => readonly string[];
  readonly person: Person;
}

/** The administrator, who comes through the door. */
async function openDoor(t: Parameters<typeof openWorld>[0] & { skip(message?: string): void }): Promise<Door> {
  const world = openWorld(t);
  const kube = openKube(t, world);
  if (kube === undefined) return { world, kube, proxy: undefined, taken: () => [], person: {} as Person };
  // The door counts who asks, which is to be the command alone.
  const own = administrator(world, kube, { settings: { kubernetes: { keepLogs: false } } });
  const proxy = await openKubeProxy(world, own.kubeconfig);
  const through = { KUBECONFIG: proxy.kubeconfig };
  const person: Person = {
    ...own,
    kubeconfig: proxy.kubeconfig,
    ask: (words, options) => own.ask(words, { ...options, env: { ...through, ...options?.env } }),
    start: (words, options) => own.start(words, { ...options, env: { ...through, ...options?.env } }),
  };
  return { world, kube, proxy, taken: () => proxy.taken(), person };
}

/**
 * Invalid input and failing clusters, from the command line to a real API server: one clear message, the right exit
 * code, no change. A proxy simulates failures of the cluster (busy, broken, away).
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'node:test';
import { jsonLines } from '../support/jobs.ts';
import {
  changedKubeconfig,
  withoutLogArchive,
  kubeTest,
  tinyFlavor,
  type Kube,
  type ClusterUser,
} from '../support/kube.ts';
import { openKubeProxy, statusResponse, type ProxyResponse, type KubeProxy } from '../support/kube-proxy.ts';

const plain = ['submit', '-q', '-i', 'alpine', '-r', tinyFlavor];
const submit = [...plain, '--', 'ls'];

/** An invalid command line: its arguments, exit code and message. */
type Wrong = readonly [args: readonly string[] | string, code: number, message: RegExp];

/** A test as the administrator, through the proxy. The proxy counts requests, so only the command may use it. */
function proxyTest(name: string, run: (kube: Kube, proxy: KubeProxy, person: ClusterUser) => Promise<void>): void {
  kubeTest(name, async (kube) => {
    const own = kube.adminUser(withoutLogArchive);
    const proxy = await openKubeProxy(kube.world, own.kubeconfig);
    await run(kube, proxy, own.withKubeconfig(proxy.kubeconfig));
  });
}

suite('an invalid command line', () => {
  proxyTest('is refused before any request to a cluster', async (kube, proxy, person) => {
    const file = (name: string, text: string): string => {
      writeFileSync(join(kube.world.folder, name), text);
      return name;
    };
    const trailing = file(
      'trailing.json',
      '{\n  "name": "no-gpu",\n  "resources": {\n    "requests": { "cpu": "1" },\n  }\n}\n',
    );
    const seed = file('seed.json', '{\n    "name": "no-gpu"\n    "resources": {\n    }\n}\n');
    const nameless = file('nameless.json', '{ "resources": { "requests": { "cpu": "1" } } }');
    const manifest = file('train.yaml', 'job:\n  name: Train\nkubernetes:\n  image: alpine\n');
    const named = (name: string) => [...plain, '-j', name, '--', 'ls'];
    const flavor = (text: string) => ['submit', '-q', '-i', 'alpine', '-r', text, '--', 'ls'];
    const annotated = (text: string) => [...plain, '-a', text, '--', 'ls'];
    const image = (text: string) => ['submit', '-q', '-i', text, '-r', tinyFlavor, '--', 'ls'];
    const lines: readonly Wrong[] = [
      [named('Train_7'), 2, /"Train_7": .*lower-case letters.*did you mean train-7\?/],
      [named('a'.repeat(64)), 2, /it has 64 characters; the limit of Kubernetes is 63/],
      [flavor(trailing), 2, /trailing\.json:\d+:\d+: Expected double-quoted property name/],
      [flavor(seed), 2, /seed\.json:3:5: /],
      [flavor(nameless), 2, /nameless\.json:1:1: a flavor needs a "name"/],
      [flavor('{"name":"x","resources":{}}'), 2, /flavor:1:25: "resources" needs "requests"/],
      [flavor('no-gpi'), 3, /There is no flavor no-gpi, .*Did you mean no-gpu\?/],
      [flavor('{"name":"x","resources":{"requests":{"gpu":1}}}'), 2, /did you mean "nvidia\.com\/gpu"/],
      [annotated('{"team": "vision",}'), 2, /annotations:1:19: Expected double-quoted property name/],
      [
        annotated('{"a": 1, "b": true, "c": {"d": "e"}}'),
        2,
        /annotations:1:7: "a" should be a text, not 1; write "1"\n.*:1:15: "b" .*write "true"\n.*:1:26: "c" should be a text/,
      ],
      [annotated('["team"]'), 2, /The annotations are not a JSON object/],
      [image(''), 2, /image/],
      [image('al pine'), 2, /al pine/],
      [['submit', '-q', '-r', tinyFlavor, '--', 'ls'], 2, /No image\. Pass -i, or set job\.defaultImage/],
      [[...plain, 'ls'], 2, /Unexpected argument "ls"/],
      [`submit -q ${manifest}`, 2, /train\.yaml:2:9 job\.name: "Train" is not a valid name in Kubernetes/],
      [[...plain, '--file', 'nowhere.yaml'], 2, /nowhere\.yaml/],
      ['history', 2, /which job|Which job/],
      ['delete -j one --all', 2, /--all/],
      ['-s nowhere.json list', 2, /nowhere\.json/],
    ];
    for (const [args, code, message] of lines) await person.runRefused(code, message, args);
    assert.deepEqual(proxy.takeRequests(), [], 'the cluster was asked');
    assert.equal(kube.jobs(), '');
  });

  proxyTest('an image may have a digest', async (kube, _proxy, person) => {
    const image = `registry.example:5000/lab/train@sha256:${'0'.repeat(64)}`;
    const args = ['-r', tinyFlavor, '-j', 'digest', '--suspend', '--', 'ls'];
    assert.equal(await person.output(['submit', '-q', '-i', image, ...args]), 'digest\n');
    assert.equal(kube.field('.spec.template.spec.containers[0].image', 'job', 'digest'), image);
    const short = ['submit', '-i', 'alpine@sha256:00', '-r', tinyFlavor, '--dry-run', '--', 'ls'];
    await person.runRefused(2, /alpine@sha256:00/, short);
  });

  proxyTest('is refused by the cluster, and the message names the flag', async (kube, _proxy, person) => {
    const lines: readonly (readonly [flag: string, value: string, message: RegExp])[] = [
      ['--parallelism', '200000', /\n  --parallelism: spec\.parallelism: Invalid value/],
      ['--env', 'a b=c', /--env/],
      ['--service-account', 'No_Body', /--service-account/],
      ['--volume', 'Data_Set:/data', /--volume/],
      ['-a', '{"Team Vision": "x"}', /annotations:1:2: /],
      ['--workdir', 'data', /--workdir|working directory/],
    ];
    for (const [flag, value, message] of lines)
      await person.runRefused(2, message, [...plain, flag, value, '--', 'ls']);
    assert.equal(kube.jobs(), '');

    await person.submit('taken', 'ls', '--suspend');
    const before = kube.get<object>('job', 'taken');
    const message = /The name taken is taken in .*\n  Use -j taken-2 /;
    await person.runRefused(4, message, [...plain, '-j', 'taken', '--', 'ls']);
    assert.deepEqual(kube.get<object>('job', 'taken'), before);
  });
});

suite('an invalid kubeconfig, context, login or permission', () => {
  kubeTest('is named in the message', async (kube) => {
    const { folder } = kube.world;
    const person = kube.adminUser();
    const changed = (change: Parameters<typeof changedKubeconfig>[2]): string =>
      changedKubeconfig(kube.world, person.kubeconfig, change);
    const withCluster = (change: (cluster: Record<string, unknown>) => void): string =>
      changed(({ clusters }) => clusters.forEach(({ cluster }) => change(cluster)));
    const withUser = (user: Record<string, unknown>): string =>
      changed(({ users }) => users.forEach((one) => void (one.user = user)));
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };

    const context = /has no context jobman-tset\.\n  (?:Did you mean|There is)/;
    await person.runRefused(3, context, [...plain, '--context', 'jobman-tset', '--', 'ls']);
    const namespace = /There is no namespace nowhere-at-all in /;
    await person.runRefused(3, namespace, [...plain, '-n', 'nowhere-at-all', '--', 'ls']);
    const unknown = withCluster((cluster) => delete cluster['certificate-authority-data']);
    const expired = withUser({ token: 'long-gone' });
    const away = withCluster((cluster) => void (cluster['server'] = 'https://127.0.0.1:9'));
    // The message says which login has expired.
    const claims = { sub: 'system:serviceaccount:vision:ada', exp: Date.UTC(2020, 0, 2, 3, 4, 5) / 1_000 };
    const parts = ['{"alg":"RS256"}', JSON.stringify(claims), 'x'].map((part) => Buffer.from(part));
    const failing = ['-c', 'echo no session >&2; exit 7'];
    const apiVersion = 'client.authentication.k8s.io/v1';
    const notAccepted = /does not accept the login of .*\n(?:.*\n)*  It has expired or is wrong\. Log in again/;
    const cases: readonly (readonly [kubeconfig: string, code: number, message: RegExp])[] = [
      [join(folder, 'none'), 5, /There is no cluster configuration: the kubeconfig .*\n  Ask the administrator/],
      [file('no-context', 'apiVersion: v1\nkind: Config\n'), 5, /has no current context/],
      [file('no-yaml', 'clusters: [\n'), 2, /is not valid YAML/],
      [unknown, 5, /the certificate of https:.* is from an unknown authority/],
      [
        withCluster((cluster) => void (cluster['tls-server-name'] = 'elsewhere.example')),
        5,
        /the certificate of https:/,
      ],
      [expired, 5, notAccepted],
      [
        withUser({ token: parts.map((part) => part.toString('base64url')).join('.') }),
        5,
        /does not accept the login of system:serviceaccount:vision:ada\.\n  It expired on 2 Jan 2020 03:04:05 UTC\. Log in again/,
      ],
      [withUser({ exec: { apiVersion, command: 'sh', args: failing, interactiveMode: 'Never' } }), 5, /no session/],
      [away, 5, /did not answer/],
    ];
    for (const [kubeconfig, code, message] of cases)
      await person.withKubeconfig(kubeconfig).runRefused(code, message, submit);
    for (const line of ['details -j x', 'logs -j x', 'delete -j x', 'delete --all --yes']) {
      await person.withKubeconfig(expired).runRefused(5, notAccepted, line);
    }
    // `list` had only the cluster to show, so its error is the result.
    for (const kubeconfig of [away, expired, unknown]) {
      const listed = await person.withKubeconfig(kubeconfig).run('list');
      assert.equal(listed.code, 5, listed.stderr);
      assert.match(listed.stdout + listed.stderr, /The cluster of .* is not shown: /);
    }
    assert.equal(kube.jobs(), '');
  });

  kubeTest('is named together with the user who lacks it', async (kube) => {
    const restricted = kube.leastPrivilegeUser();
    kube.kubectl('delete', 'rolebinding', 'researcher');
    kube.kubectl('create', 'job', 'there', '--image=alpine', '--', 'true');
    const who = `system:serviceaccount:${kube.namespace}:researcher`;
    const may = (verb: string): RegExp =>
      new RegExp(
        `${who} may not ${verb} jobs in the namespace ${kube.namespace} of .*\\n  The permission \`${verb}\` on jobs\\.batch is missing`,
      );
    await restricted.runRefused(1, may('create'), submit);
    await restricted.runRefused(1, may('get'), 'details -j there');
    await restricted.runRefused(1, may('get'), 'delete -j there');
    await restricted.runRefused(1, may('list'), 'delete --all --yes');
    const listed = await restricted.run('list');
    assert.equal(listed.code, 1, 'no other job is shown');
    assert.match(listed.stdout + listed.stderr, /is not shown: .*may not list jobs/);
    assert.equal(kube.jobs(), 'job.batch/there');
  });
});

suite('a cluster that is busy, broken or away', () => {
  const busy: ProxyResponse = {
    ...statusResponse(429, 'TooManyRequests', 'too many'),
    headers: { 'retry-after': '1' },
  };
  const broken: ProxyResponse = { code: 503, body: '<html>no upstream</html>' };

  proxyTest('is retried within limits', async (kube, proxy, person) => {
    for (const answer of [busy, broken]) {
      let left = 2;
      proxy.setHandler(({ method }) =>
        (method === 'GET' || answer === busy) && (left -= 1) >= 0 ? answer : undefined,
      );
      const name = `patient-${answer.code}`;
      assert.equal(await person.submit(name, 'ls', '--suspend'), `${name}\n`);
      left = 2;
      await person.output(`details -j ${name}`);
      assert.ok(left <= 0, 'the response never arrived');
    }
    const before = kube.jobs();
    for (const answer of [busy, broken]) {
      proxy.setHandler(() => answer);
      proxy.takeRequests();
      const message = new RegExp(`failed or is overloaded, .*\\(HTTP ${answer.code}\\)`);
      await person.runRefused(5, message, `details -j patient-${answer.code} --namespace ${kube.namespace}`);
      const asked: number = proxy.takeRequests().length;
      assert.ok(asked > 1 && asked <= 5, `${asked} requests`);
      await person.runRefused(5, message, [...plain, '-j', 'never', '--', 'ls']);
      assert.ok(proxy.takeRequests().length <= 15);
    }
    proxy.setHandler(() => undefined);
    assert.equal(kube.jobs(), before);
  });

  proxyTest('a creation whose reply was lost is searched for, and not repeated', async (kube, proxy, person) => {
    for (const [name, instead] of [
      // The API server has done the request; the reply is a gateway's error, or missing.
      ['once', { replyWith: broken }],
      ['once-more', { replyWith: 'cut' }],
      // The request never arrived.
      ['again', 'cut'],
    ] as const) {
      let left = 1;
      proxy.setHandler(({ method }) => (method === 'POST' && (left -= 1) >= 0 ? instead : undefined));
      assert.equal(await person.submit(name, 'ls', '--suspend'), `${name}\n`);
    }
    assert.deepEqual(kube.jobs().split('\n').toSorted(), ['job.batch/again', 'job.batch/once', 'job.batch/once-more']);
  });

  proxyTest('a list with an expired continue token continues with the current state', async (kube, proxy, person) => {
    const names = ['one', 'two', 'three', 'four', 'five'];
    for (const name of names) kube.kubectl('create', 'job', name, '--image=alpine', '--', 'true');
    let expired = 0;
    proxy.setHandler(({ path }) => {
      if (!path.includes('/jobs?')) return undefined;
      const token = new URL(path, 'http://door').searchParams.get('continue');
      if (token === null || expired > 0) return { path: path.replace('limit=500', 'limit=2') };
      expired += 1;
      // Like an API server: its new token continues at the same key, without a version.
      const inside = JSON.parse(Buffer.from(token, 'base64url').toString()) as object;
      const next = Buffer.from(JSON.stringify({ ...inside, rv: -1 })).toString('base64url');
      const metadata = { continue: next };
      return statusResponse(410, 'Expired', 'The provided continue parameter is too old', { metadata });
    });
    const found = jsonLines<{ name: string }>(await person.output('list --all --json')).map(({ name }) => name);
    assert.deepEqual(found.toSorted(), names.toSorted());
    assert.equal(expired, 1);
  });

  proxyTest('after a watch expires, a new list misses no change', async (kube, proxy, person) => {
    await person.submit('held', 'sleep 8');
    await person.submit('other', 'sleep 600');
    const expired = { code: 410, kind: 'Status', reason: 'Expired', message: 'too old resource version: 1 (2)' };
    const inside = { code: 200, body: `${JSON.stringify({ type: 'ERROR', object: expired })}\n` };
    const watches: Record<string, number> = {};
    proxy.setHandler(({ path }) => {
      if (!path.includes('watch=true')) return undefined;
      const of = new URL(path, 'http://door').searchParams.get('fieldSelector') ?? 'all';
      const count = (watches[of] ?? 0) + 1;
      watches[of] = count;
      // Refused at once, then during the watch: an API server does both.
      if (count === 1) return statusResponse(410, expired.reason, expired.message);
      if (count > 2) return undefined;
      // There is no watch at this moment.
      if (of === 'metadata.name=other') kube.kubectl('delete', 'job', 'other', '--wait=false');
      return inside;
    });
    const watching = person.start('list --watch --json');
    const waited = await person.run('wait held other');
    // One job was deleted, which is not a success.
    assert.equal(waited.code, 1, waited.stderr);
    assert.match(waited.stdout, /^Job held succeeded /m);
    assert.match(waited.stderr, /^(?:jobman: )?Job other was deleted meanwhile\.$/m);
    await watching.waitForOutput(/"id":"held".*"phase":"succeeded"/, 60_000);
    watching.child.kill('SIGINT');
    const seen = await watching.result;
    assert.equal(seen.code, 130);
    const output = seen.stderr + waited.stderr;
    assert.doesNotMatch(output, /does not answer|410|Expired/, 'the user sees no trouble');
    for (const what of ['metadata.name=held', 'metadata.name=other']) {
      assert.ok((watches[what] ?? 0) >= 2, JSON.stringify(watches));
    }
  });

  proxyTest('a log that is followed over a lost connection loses and repeats nothing', async (_kube, proxy, person) => {
    const program = 'i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; sleep 0.2; done';
    const following = person.start([
      'submit',
      ...plain.slice(2),
      '-j',
      'talker',
      '--follow',
      '--',
      'sh',
      '-c',
      program,
    ]);
    await following.waitForOutput('line 5\n', 60_000);
    await proxy.close();
    await following.waitForOutput(/does not answer|Still trying/, 60_000);
    await proxy.open();
    const ended = await following.result;
    assert.equal(ended.code, 0, ended.stderr);
    const lines = Array.from({ length: 60 }, (_, index) => `line ${index + 1}`);
    const [first, ...printed] = ended.stdout.trim().split('\n');
    assert.match(first ?? '', /^talker submitted to /);
    assert.deepEqual(printed, lines, ended.stderr);
    assert.match(ended.stderr, /The cluster answers again\./);
  });
});

/** Commands for images of a registry, with their output, exit code and requests. The server and its TLS are real. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { clusterSettingsOf } from '../../src/app/cluster/settings.ts';
import { createCloudClient } from '../../src/app/cloud-client.ts';
import type { ClientParts } from '../../src/app/store-client.ts';
import { aMember } from '../support/builders.ts';
import { openImages } from '../../src/wiring/harbor.ts';
import { jobman, createCliHarness } from '../cli/support/harness.ts';
import { openWorld, type World } from '../support/world.ts';
import { openHarbor, type Artifact, type FakeHarbor, type Project } from './server.ts';

const now = Date.UTC(2026, 10, 21, 12, 0, 0);
const digest = (index: number): string => `sha256:${String(index).padStart(64, '0')}`;

function artifact(index: number, ...tags: readonly string[]): Artifact {
  // The higher the number, the newer.
  return { digest: digest(index), tags, pushedAt: new Date(now - 3_600_000 * (1_000 - index)).toISOString() };
}

const lab: Project = {
  name: 'lab',
  public: true,
  repositories: [
    {
      name: 'ubuntu_python_tensorflow',
      description: '# TensorFlow\n\nWith **CUDA** 11.\u001b[2J\n',
      pulls: 7,
      artifacts: [
        artifact(1, '3.0'),
        {
          ...artifact(2, '3.1cuda11', 'latest'),
          size: 5_234_000_000,
          platforms: ['linux/amd64', 'linux/arm64'],
        },
        artifact(3),
      ],
    },
    { name: 'nested/deep/trainer', artifacts: [artifact(4, 'v1')] },
    { name: 'empty', artifacts: [] },
  ],
};

const rowsIn = (out: string): readonly { readonly name: string; readonly tags: readonly string[] }[] =>
  out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as ReturnType<typeof rowsIn>[number]]));

/** The usual number of tries, with shorter pauses. */
const hasty = { maxTries: 4, maxTriesIfBroken: 4, initialDelay: 1, maxDelay: 5 };

interface HarborFixture {
  readonly world: World;
  readonly harbor: FakeHarbor;
  readonly run: (
    args: readonly string[],
    settings?: Readonly<Record<string, unknown>>,
    later?: number,
  ) => Promise<{ readonly code: number; readonly out: string; readonly err: string }>;
}

/** A home with a registry. `settings` overrides those that point to it; the clock may be later. */
async function openRegistry(
  t: TestContext,
  given: Partial<Parameters<typeof openHarbor>[1]> = {},
): Promise<HarborFixture> {
  const world = openWorld(t);
  const harbor = await openHarbor(world, { projects: [lab], ...given });
  return {
    world,
    harbor,
    async run(args, settings = {}, later = 0) {
      const values = { url: harbor.url, project: 'lab', caFile: harbor.caFile, ...settings };
      const merged = clusterSettingsOf(new Map(Object.entries(values).map(([key, value]) => [`harbor.${key}`, value])));
      const { io } = createCliHarness().services;
      const own = {
        io: { ...io, env: world.env, userHome: world.env['HOME'] ?? '', now: () => now + later },
        home: world.home,
        clusterSettings: async () => ({ settings: merged, sources: new Map() }),
      };
      const registry = () => openImages({ ...createCliHarness().services, ...own }, hasty);
      const parts = { registry } as object as ClientParts;
      const { images, image } = createCloudClient(
        async () => aMember('alice'),
        parts,
        async () => undefined,
      );
      return jobman(args, { now: () => now + later, client: { images, image } });
    },
  };
}

/** Docker's configuration in that home, and credential helpers. */
function docker({ env, folder }: World, config: object, programs: Readonly<Record<string, string>> = {}): void {
  mkdirSync(join(env['HOME'] ?? '', '.docker'));
  writeFileSync(join(env['HOME'] ?? '', '.docker/config.json'), JSON.stringify(config));
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  Object.assign(env, { PATH: `${bin}:${env['PATH'] ?? ''}` });
}

suite('jobman images', () => {
  test('shows each image of the project with its tags, newest first', async (t) => {
    const { run } = await openRegistry(t);
    const { code, out, err } = await run(['images']);
    assert.equal(code, 0, err);
    assert.deepEqual(out.trimEnd().split('\n'), [
      'IMAGE                     UPDATED  TAGS',
      'empty                          1d  -',
      'nested/deep/trainer            1d  v1',
      'ubuntu_python_tensorflow       1d  3.1cuda11, latest, 3.0',
    ]);
    assert.match(err, /^3 images on https:/);
    const [, , row = ''] = (await run(['images', '--json'])).out.split('\n');
    assert.deepEqual(JSON.parse(row), {
      name: 'ubuntu_python_tensorflow',
      project: 'lab',
      repository: 'ubuntu_python_tensorflow',
      tags: ['3.1cuda11', 'latest', '3.0'],
      artifactCount: 3,
      pullCount: 7,
      updatedAt: '2026-11-20T12:00:00.000Z',
      fetchedAt: new Date(now).toISOString(),
    });
  });

  test('reads every page of images and tags, at most eight at once', async (t) => {
    const many: Project = {
      name: 'many',
      public: true,
      repositories: Array.from({ length: 230 }, (_, index) => ({
        name: `image-${String(index).padStart(3, '0')}`,
        artifacts:
          index === 229 ? Array.from({ length: 205 }, (_one, tag) => artifact(tag, `t${tag}`)) : [artifact(1, 'one')],
      })),
    };
    const { run, harbor } = await openRegistry(t, { projects: [many], slowMs: 3 });
    const { out, err } = await run(['images', '--json'], { project: 'many' });
    const rows = rowsIn(out);
    assert.equal(rows.length, 230, err);
    assert.equal(rows.at(-1)?.tags.length, 205);
    assert.equal(rows.at(-1)?.tags[0], 't204');
    assert.ok(harbor.maxConcurrency() > 1 && harbor.maxConcurrency() <= 8, `${harbor.maxConcurrency()} at once`);
    const pages = harbor.requests.filter((path) => path.startsWith('/api/v2.0/projects/many/repositories?'));
    assert.equal(pages.length, 3);
  });

  test("without a project shows those of all visible projects, with the project's name", async (t) => {
    const secret: Project = {
      name: 'secret',
      members: ['ada'],
      repositories: [{ name: 'x', artifacts: [artifact(1, 'a')] }],
    };
    const { run } = await openRegistry(t, { projects: [lab, secret], users: { ada: 'pass:word' } });
    const names = async (settings: Readonly<Record<string, unknown>>): Promise<readonly string[]> => {
      const { out, err } = await run(['images', '--json'], { project: null, ...settings });
      assert.notEqual(out, '', err);
      return rowsIn(out).map(({ name }) => name);
    };
    assert.deepEqual(await names({}), ['lab/empty', 'lab/nested/deep/trainer', 'lab/ubuntu_python_tensorflow']);
    assert.equal((await names({ user: 'ada', password: 'pass:word' })).at(-1), 'secret/x');
  });

  test('uses an answer of the last ten minutes, with its age; --refresh requests a new one', async (t) => {
    const { run, harbor, world } = await openRegistry(t);
    await run(['images']);
    const count = harbor.requests.length;
    harbor.setProjects([{ ...lab, repositories: [] }]);
    const again = await run(['images'], {}, 9 * 60_000);
    assert.match(again.out, /nested\/deep\/trainer/);
    assert.match(again.err, /Checked 9m ago; --refresh checks again\./);
    assert.equal(harbor.requests.length, count);
    assert.match((await run(['images', '--refresh'], {}, 9 * 60_000)).err, /^0 images on/);
    harbor.setProjects([lab]);
    assert.match(
      (await run(['images'], {}, 20 * 60_000)).err,
      /^3 images on [^\n]*\n$/,
      'an old copy is requested again',
    );
    // Other users must not see the images of a project.
    const folder = join(world.home, 'harbor');
    const [file = ''] = readdirSync(folder);
    assert.equal(statSync(join(folder, file)).mode & 0o777, 0o600);
    writeFileSync(join(folder, file), '{"broken');
    assert.equal((await run(['images'], {}, 21 * 60_000)).code, 0, 'a broken copy is ignored');
    const as = { user: 'ada', password: 'x' };
    assert.equal((await run(['images'], as, 21 * 60_000)).code, 5, 'a cached answer is only for its own user');
  });

  test('shows an old copy if the registry does not answer, and says so', async (t) => {
    const { run, harbor } = await openRegistry(t);
    await run(['images']);
    harbor.fail(...Array.from({ length: 4 }, () => ({ status: 503, headers: { 'retry-after': '0' } })));
    const old = await run(['images'], {}, 3 * 3_600_000);
    assert.equal(old.code, 0);
    assert.match(old.out, /trainer/);
    assert.match(old.err, /This copy is 3h old\. Could not list .* is overloaded or broken \(HTTP 503\)\./);
    harbor.fail(...Array.from({ length: 4 }, () => ({ status: 503 })));
    assert.equal((await run(['images', '--refresh'], {}, 3 * 3_600_000)).code, 5);
  });
});

suite('jobman image-details', () => {
  test('shows the description of an image, and its newest tags', async (t) => {
    const { run } = await openRegistry(t);
    const { code, out, err } = await run(['image-details', '-i', 'ubuntu_python_tensorflow']);
    assert.equal(code, 0, err);
    assert.match(
      out,
      /^ubuntu_python_tensorflow\nwhere +127\.0\.0\.1:\d+\/lab\/ubuntu_python_tensorflow\npulled +7 times\n/,
    );
    assert.match(out, /\n3\.1cuda11, latest +sha256:0{12} +5\.2 GB +\d+d +linux\/amd64, linux\/arm64\n/);
    // A description is untrusted text: it must not clear the screen.
    assert.ok(out.endsWith('\n\n# TensorFlow\n\nWith **CUDA** 11.\\x1b[2J\n'), JSON.stringify(out));
    const one = await run(['image-details', '--image', 'ubuntu_python_tensorflow:latest', '--json']);
    const report = JSON.parse(one.out) as { artifacts: readonly Artifact[]; description: string };
    assert.deepEqual(
      report.artifacts.map((each) => each.digest),
      [digest(2)],
    );
  });

  test('finds an image by each of its names', async (t) => {
    const { run, harbor } = await openRegistry(t);
    const { host } = new URL(harbor.url);
    for (const name of [
      'nested/deep/trainer',
      'nested/deep/trainer:v1',
      'lab/nested/deep/trainer',
      `${host}/lab/nested/deep/trainer:v1`,
      `nested/deep/trainer@${digest(4)}`,
      `nested/deep/trainer:other@${digest(4)}`,
    ]) {
      const { code, out, err } = await run(['image-details', '-i', name, '--json']);
      assert.equal(code, 0, `${name}: ${err}`);
      assert.equal((JSON.parse(out) as { repository: string }).repository, 'nested/deep/trainer');
    }
    assert.ok(harbor.requests.some((path) => path.includes('/nested%252Fdeep%252Ftrainer')));
    assert.equal((await run(['image-details', 'lab/empty'], { project: null })).code, 0);
  });

  test('reports a missing image, with a suggestion', async (t) => {
    const { run } = await openRegistry(t);
    const assertResult = async (code: number, text: RegExp, ...args: readonly string[]): Promise<void> => {
      const ended = await run(['image-details', ...args]);
      assert.equal(ended.code, code, ended.err);
      assert.match(ended.err, text);
    };
    await assertResult(
      3,
      /There is no image ubuntu_python_tensorflo in the project lab .* Did you mean ubuntu_python_tensorflow\?/,
      '-i',
      'ubuntu_python_tensorflo',
    );
    await assertResult(
      3,
      /has no tag 3\.1cuda12\. Did you mean 3\.1cuda11\?\n  Its newest tags: 3\.1cuda11, latest, 3\.0/,
      '-i',
      'ubuntu_python_tensorflow:3.1cuda12',
    );
    await assertResult(3, /has no artifact sha256:9+\./, '-i', `ubuntu_python_tensorflow@sha256:${'9'.repeat(64)}`);
    await assertResult(2, /"Big:Name:x" is not an image name/, '-i', 'Big:Name:x');
    await assertResult(2, /Which image\?/);
    const { code, err } = await run(['image-details', '-i', 'empty'], { project: null });
    assert.equal(code, 2);
    assert.match(err, /empty needs a project/);
  });
});

suite('a login', () => {
  const users = { ada: 'pass:word' };
  const secret: Project = { name: 'secret', members: ['ada'], repositories: [{ name: 'x', artifacts: [] }] };
  const closed = { projects: [secret], users };
  const of = { project: 'secret' };

  test('of the settings is used, and a wrong one is distinguished from a missing one', async (t) => {
    const { run } = await openRegistry(t, closed);
    assert.equal((await run(['images'], { ...of, user: 'ada', password: 'pass:word' })).code, 0);
    const wrong = await run(['images', '--refresh'], { ...of, user: 'ada', password: 'no' });
    assert.equal(wrong.code, 5);
    assert.match(wrong.err, /does not accept the login of ada\./);
    assert.ok(!wrong.err.includes(' no\n'), 'a password is not printed');
    const none = await run(['images', '--refresh'], of);
    assert.equal(none.code, 5);
    assert.match(none.err, /requires a login\.\n  Log in with `docker login 127\.0\.0\.1:\d+`, or set harbor\.user/);
    const half = await run(['images'], { ...of, user: 'ada' });
    assert.deepEqual([half.code, /no harbor\.password/.test(half.err)], [2, true]);
  });

  test('of Docker is found in its file, for each form of an address', async (t) => {
    for (const form of ['HOST', 'https://HOST', 'https://HOST/v2/']) {
      await t.test(form, async (inner) => {
        const { run, world, harbor } = await openRegistry(inner, closed);
        const address = form.replace('HOST', new URL(harbor.url).host);
        docker(world, { auths: { [address]: { auth: Buffer.from('ada:pass:word').toString('base64') } } });
        const { code, err } = await run(['images'], of);
        assert.equal(code, 0, err);
      });
    }
  });

  test('of Docker comes from a credential helper, for this registry before the one for all', async (t) => {
    const { run, world, harbor } = await openRegistry(t, closed);
    const { host } = new URL(harbor.url);
    docker(
      world,
      { credsStore: 'all', credHelpers: { [host]: 'own' }, auths: { [host]: {} } },
      {
        'docker-credential-own': `read address; [ "$1 $address" = "get ${host}" ] || exit 9\necho '{"ServerURL":"${host}","Username":"ada","Secret":"pass:word"}'`,
        'docker-credential-all': 'echo "{\\"Username\\":\\"eve\\",\\"Secret\\":\\"x\\"}"',
      },
    );
    const { code, err } = await run(['images'], of);
    assert.equal(code, 0, err);
  });

  test('is anonymous if the helper has none, and a failing helper is named if a login is needed', async (t) => {
    const { run, world } = await openRegistry(t, { projects: [lab, secret], users });
    docker(
      world,
      { credsStore: 'keys' },
      { 'docker-credential-keys': 'echo "credentials not found in native keychain"; exit 1' },
    );
    assert.equal((await run(['images'])).code, 0);
    writeFileSync(
      join(world.folder, 'bin/docker-credential-keys'),
      '#!/bin/sh\necho "the keyring is locked"; exit 2\n',
    );
    assert.equal((await run(['images', '--refresh'])).code, 0, 'a public project needs no login');
    const locked = await run(['images', '--refresh'], of);
    assert.equal(locked.code, 5);
    assert.match(
      locked.err,
      /docker credential helper docker-credential-keys exited with code 2: the keyring is locked/,
    );
    writeFileSync(join(world.env['HOME'] ?? '', '.docker/config.json'), '{"credsStore": "absent"}');
    assert.match((await run(['images', '--refresh'], of)).err, /docker-credential-absent was not found/);
  });

  test('without permission is distinguished from a refused one', async (t) => {
    const { run } = await openRegistry(t, { projects: [lab, secret], users: { ...users, eve: 'x' } });
    const { code, err } = await run(['images'], { ...of, user: 'eve', password: 'x' });
    assert.equal(code, 1);
    assert.match(err, /the project does not exist, or eve may not read it\.\n.*\n  FORBIDDEN: forbidden/);
  });
});

suite('a failed request', () => {
  test('is repeated if a repetition may help', async (t) => {
    const { run, harbor } = await openRegistry(t);
    harbor.fail({ status: 429, headers: { 'retry-after': '0' } }, { drop: true }, { status: 502 });
    assert.equal((await run(['images'])).code, 0);
    harbor.fail(...Array.from({ length: 4 }, () => ({ status: 429, headers: { 'retry-after': '0' } })));
    const busy = await run(['images', '--refresh']);
    assert.equal(busy.code, 5);
    assert.match(busy.err, /is overloaded or broken \(HTTP 429\)/);
    // Four tries and no fifth: the next answer succeeds.
    assert.equal((await run(['images', '--refresh'])).code, 0);
  });

  test('is not repeated if the result would be the same', async (t) => {
    const { run, harbor } = await openRegistry(t);
    const at = harbor.requests.length;
    harbor.fail({ status: 422, body: '{"errors":[{"code":"606","message":"page_size is wrong"}]}' });
    const { code, err } = await run(['images']);
    assert.equal(code, 1);
    assert.match(err, /refused it \(HTTP 422\)\.\n  606: page_size is wrong/);
    assert.equal(harbor.requests.length, at + 1);
  });

  test('with an unknown authority names the setting that makes it known', async (t) => {
    const { run, world } = await openRegistry(t);
    const unknown = await run(['images'], { caFile: null });
    assert.equal(unknown.code, 5);
    assert.match(unknown.err, /the certificate of https:\S+ is from an unknown authority\.\n.*harbor\.caFile/);
    const gone = await run(['images'], { caFile: join(world.folder, 'none.pem') });
    assert.deepEqual([gone.code, /harbor\.caFile cannot be used/.test(gone.err)], [2, true]);
    writeFileSync(join(world.folder, 'no.pem'), 'hello');
    assert.match((await run(['images'], { caFile: join(world.folder, 'no.pem') })).err, /contains no PEM certificate/);
  });

  test('does not send a login to another address', async (t) => {
    const { run, harbor } = await openRegistry(t, { users: { ada: 'x' } });
    harbor.fail({ status: 308, headers: { location: 'https://elsewhere.example/api' } });
    const { code, err } = await run(['images'], { user: 'ada', password: 'x' });
    assert.equal(code, 5);
    assert.match(err, /redirects to https:\/\/elsewhere\.example\/api\.\n  Set harbor\.url/);
  });

  test('to another server reports that it is not Harbor', async (t) => {
    const { run, harbor } = await openRegistry(t);
    harbor.fail({ status: 200, body: '<html>Welcome</html>' });
    const { code, err } = await run(['images']);
    assert.equal(code, 5);
    assert.match(err, /the server at https:\S+ is not Harbor/);
    const away = await run(['images'], { url: 'https://127.0.0.1:9' });
    assert.deepEqual([away.code, /did not answer/.test(away.err)], [5, true]);
    const none = await run(['images'], { url: null });
    assert.deepEqual([none.code, /name no Harbor registry/.test(none.err)], [2, true]);
  });

  test('with values of wrong types reports that the server is not Harbor', async (t) => {
    const { run, harbor } = await openRegistry(t);
    for (const body of [
      '[null]',
      '[{}]',
      '[{"name":5}]',
      '[{"name":null}]',
      '[{"name":"lab/a","artifact_count":"x"}]',
    ]) {
      harbor.fail({ status: 200, body });
      const { code, err } = await run(['images']);
      assert.deepEqual([code, /is not Harbor/.test(err)], [5, true], body);
    }
    for (const body of ['{"name":[]}', '{"name":"lab/web","description":5}', '{"name":"lab/web","pull_count":{}}']) {
      harbor.fail({ status: 200, body });
      const { code, err } = await run(['image-details', '-i', 'lab/web']);
      assert.deepEqual([code, /is not Harbor/.test(err)], [5, true], body);
    }
  });

  test('accepts the address of a web page of Harbor', async (t) => {
    const { run, harbor } = await openRegistry(t);
    for (const end of ['/', '/harbor', '/api/v2.0/'])
      assert.equal((await run(['images', '--refresh'], { url: harbor.url + end })).code, 0, end);
    assert.ok(readFileSync(harbor.caFile, 'utf8').includes('CERTIFICATE'));
  });
});

/** The outputs of a clone's build: the bundle, and the result of plain `npx tsc`. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { test } from 'node:test';
import { version } from '../../src/version.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { copySources } from '../support/copy.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

test("a clone's build runs, is reproducible, loads little, and includes every source", async (t) => {
  const world = openWorld(t);
  const top = join(world.folder, 'jobman');
  copySources(top);
  symlinkSync(join(root, 'node_modules'), join(top, 'node_modules'));
  const { env } = world;
  const run = (file: string, ...argv: string[]) => execFileSync(file, argv, { cwd: top, env, encoding: 'utf8' });
  const runs = () => assert.equal(run('bin/jobman', '--version'), `jobman ${version}\n`);

  const bundle = join(top, 'dist/bundle');
  mkdirSync(bundle, { recursive: true });
  for (const name of ['recent-1.cjs', 'old-1.cjs']) writeFileSync(join(bundle, name), '');
  const monthAgo = new Date(Date.now() - 30 * 24 * 60 * 60 * 1000);
  utimesSync(join(bundle, 'old-1.cjs'), monthAgo, monthAgo);
  run('npm', 'run', 'build');
  const first = readdirSync(bundle);
  assert.ok(first.includes('recent-1.cjs'), 'a recent chunk of another build is kept');
  assert.ok(!first.includes('old-1.cjs'), 'an old chunk is deleted');
  assert.deepEqual(readdirSync(join(top, 'dist')).toSorted(), ['bundle', 'dashboard', 'sdk', 'settings.json']);
  assertSmall(join(top, 'dist/dashboard'));
  // The next build compares the checksum to find out whether the settings template was edited.
  const others = first.filter((name) => !/\.cjs(\.map)?$/.test(name));
  assert.deepEqual(others, ['settings.sha256']);
  runs();
  // The framework uses class names, which a bundle shortens. Our error messages must not depend on them.
  const wrong = spawnSync(join(top, 'bin/jobman'), ['logs', '1', '--tail', 'x'], { encoding: 'utf8', env });
  assert.match(wrong.stderr, /^jobman: --tail "x": expected a whole number\.\n/);

  const entry = readFileSync(join(bundle, 'main.cjs'), 'utf8');
  const beforeCache = entry.slice(0, entry.indexOf('enableCompileCache'));
  const eager = [...beforeCache.matchAll(/require\("(.*?)"\)/g)].map(([, name]) => name);
  const ours = eager.filter((name) => !name?.startsWith('node:') && !name?.startsWith('./rolldown-runtime-'));
  assert.deepEqual(ours, []);
  assert.match(entry, /\.then\(\(\)\s*=>\s*require\("\.\/start-/, 'The rest is loaded when it is asked for.');

  await storeFinishedJob(world);
  for (const verb of ['list', 'show', 'why', 'history', 'logs'])
    assert.deepEqual(
      chunksOf(verb, bundle, world).filter((name) => /^(cluster|server-client|tpu)-/.test(name)),
      [],
    );

  run('npm', 'run', 'build');
  assert.deepEqual(readdirSync(bundle), first);

  const source = join(top, 'src/version.ts');
  const good = readFileSync(source);
  writeFileSync(source, "export const version = ';");
  assert.throws(() => run('npm', 'run', 'build'), /The bundle cannot be built/);
  assert.ok(!existsSync(join(bundle, 'main.cjs')));
  writeFileSync(source, good);

  run('npx', 'tsc');
  // Without a bundle, bin/jobman takes dist/main.js.
  runs();
  assert.equal(run(join(root, 'node_modules/.bin/node'), 'dist/main.js', '--version'), `jobman ${version}\n`);
  run('npm', 'run', 'build');
  run('npx', 'tsc');
  assert.ok(existsSync(join(bundle, 'main.cjs')), 'tsc leaves the bundle');
  runs();
});

async function storeFinishedJob({ home }: World): Promise<void> {
  const store = openStore({ file: join(home, 'state.db') });
  const { job, revision } = await store.insert({
    owner: userInfo().username,
    spec: localSpec(),
    manifest: '',
    at: noon,
  });
  const finish = { at: noon, verdict: 'succeeded', reason: 'succeeded' } as const;
  const commit = { revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null };
  assert.equal(await store.commit({ ...commit, job: { ...job, startRequest: null, finish } }), 'committed');
  await store.close();
}

/** The chunks that a command about the job loads. */
function chunksOf(verb: string, bundle: string, { folder, env }: World): readonly string[] {
  const [hook, loaded] = [join(folder, 'hook.cjs'), join(folder, 'loaded')];
  writeFileSync(
    hook,
    "process.on('exit', () => require('fs').writeFileSync(process.env.LOADED, Object.keys(require.cache).join('\\n')))",
  );
  const argv = ['--require', hook, join(bundle, 'main.cjs'), verb, ...(verb === 'list' ? [] : ['1'])];
  const { status, stderr } = spawnSync(process.execPath, argv, { env: { ...env, LOADED: loaded }, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const chunks = readFileSync(loaded, 'utf8')
    .split('\n')
    .filter((path) => path.startsWith(bundle));
  assert.ok(chunks.length > 3, String(chunks));
  return chunks.map((path) => basename(path));
}

/** The script that a browser loads before the first page: at most 60 KB, compressed. */
function assertSmall(dashboard: string): void {
  const html = readFileSync(join(dashboard, 'index.html'), 'utf8');
  const scripts = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+\.js)"/g)].map(([, path = '']) => path);
  assert.ok(scripts.length > 0, html);
  const bytes = scripts.map((path) => gzipSync(readFileSync(join(dashboard, path))).length);
  assert.ok(bytes.reduce((sum, one) => sum + one, 0) <= 60_000, String(bytes));
}

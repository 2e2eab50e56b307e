/** The module gcsfuse with the real program, against a storage server on loopback. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { gcsfuseBinary } from '../support/gcsfuse.ts';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { gcsfuseStep } from '../../src/setup/gcsfuse.ts';
import type { BucketCache } from '../../src/setup/modules.ts';
import { openHost } from '../setup/shell.ts';
import { openStorage } from '../setup/storage-server.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openJobWorld } from '../support/jobs.ts';

const noCache: BucketCache = { dir: null, flags: [], prepareScript: null };

/** The one on PATH, or the one that `npm run long -- gcsfuse` has built, which takes Go and minutes. */
function findGcsfuse(): string | undefined {
  return existsSync(gcsfuseBinary) ? gcsfuseBinary : findProgram('gcsfuse');
}

/** The real program, if it may mount; otherwise the test is skipped with a message. */
function findUsable(t: TestContext): string | undefined {
  let mayMount = process.getuid?.() === 0 && findProgram('fusermount3') !== undefined;
  try {
    accessSync('/dev/fuse', constants.R_OK | constants.W_OK);
  } catch {
    mayMount = false;
  }
  // The full check requires it where it could build it (Debian has no package of it) and where FUSE exists.
  const isAsked = { JOBMAN_REQUIRE_REAL: process.env['JOBMAN_REQUIRE_GCSFUSE'] };
  const gcsfuse = mayMount ? findGcsfuse() : undefined;
  return requireReal(t, 'gcsfuse and /dev/fuse, as root', gcsfuse, isAsked) ? gcsfuse : undefined;
}

test('buckets are mounted with their caches, and mounted again after their daemon has died', async (t) => {
  const gcsfuse = findUsable(t);
  if (gcsfuse === undefined) return;
  const host = openHost(t, { patienceMs: 10_000 });
  const { world, home } = host;
  const storage = await openStorage(world, 'my-bucket');
  storage.put('data/train.txt', 'one line\n');
  storage.put('checkpoints/step_1.json', '{}');
  // The real program with the address of this storage server. The module chooses all other flags.
  host.program(
    'gcsfuse',
    `echo "$@" >>"$HOME/flags"\nexec ${home}/real/gcsfuse --custom-endpoint=${storage.url}/storage/v1/ --anonymous-access --enable-hns=false "$@"`,
  );
  mkdirSync(join(home, 'real'));
  spawnSync('cp', [gcsfuse, join(home, 'real/gcsfuse')]);
  const mountPoint = join(home, 'my bucket');
  const extra = join(home, 'extra');
  const needs = join(home, 'needs');
  world.atEnd(() => {
    for (const path of [mountPoint, extra]) spawnSync('umount', ['--lazy', path]);
    // A namespace created meanwhile would have these mounts too, and keep their daemons alive.
    for (const line of readFileSync(needs, 'utf8').trimEnd().split('\n')) {
      const pid = Number(line.split(' ')[0]);
      if (argvOf(pid)[0]?.startsWith(home) === true) process.kill(pid, 'SIGKILL');
    }
  });
  const before = `mkdir -p "$HOME/cache dir" && echo made >>"$HOME/before"\n`;
  const step = gcsfuseStep({
    name: 'gcsfuse',
    mounts: [
      {
        bucket: 'my-bucket',
        path: '~/my bucket',
        cache: {
          dir: '~/cache dir',
          flags: [
            '--metadata-cache-ttl-secs=60',
            '--stat-cache-max-size-mb=32',
            '--type-cache-max-size-mb=4',
            '--file-cache-max-size-mb=100',
            '--file-cache-cache-file-for-range-read=true',
            '--file-cache-enable-parallel-downloads=true',
          ],
          prepareScript: before,
        },
      },
      { bucket: 'my-bucket', path: extra, cache: noCache },
    ],
  });
  const apply = () => host.start(step.apply, { JOBMAN_NEEDS: needs });
  const check = () => host.start(step.check ?? '', { JOBMAN_NEEDS: needs });

  assert.equal((await check()).code, 1);
  const mounted = await apply();
  assert.equal(mounted.code, 0, mounted.out);
  // The storage server is in this process, so nothing here may block while a mount is used.
  assert.equal(await readFile(join(extra, 'data/train.txt'), 'utf8'), 'one line\n');
  assert.deepEqual((await readdir(mountPoint)).toSorted(compareTexts), ['checkpoints', 'data']);
  await writeFile(join(mountPoint, 'checkpoints/step_2.json'), '{"step": 2}');
  assert.equal(storage.read('checkpoints/step_2.json'), '{"step": 2}');
  assert.equal(await readFile(join(extra, 'checkpoints/step_2.json'), 'utf8'), '{"step": 2}');
  assert.equal(await readFile(join(home, 'before'), 'utf8'), 'made\n');
  const [flags = ''] = (await readFile(join(home, 'flags'), 'utf8')).split('\n');
  assert.match(flags, /--file-cache-max-size-mb=100 --file-cache-cache-file-for-range-read=true/);

  // The step holds: nothing is mounted twice, and the daemons of the mounts are known.
  assert.equal((await check()).code, 0);
  assert.equal((await apply()).code, 0);
  assert.equal((await readFile(join(home, 'flags'), 'utf8')).trimEnd().split('\n').length, 2);
  const daemons = new Set((await readFile(needs, 'utf8')).trimEnd().split('\n'));
  assert.equal(daemons.size, 2);
  for (const line of daemons) {
    const [pid = '', ticks = ''] = line.split(' ');
    assert.equal(await readFile(`/proc/${pid}/comm`, 'utf8'), 'gcsfuse\n');
    assert.ok((await readFile(`/proc/${pid}/stat`, 'utf8')).includes(` ${ticks} `));
  }

  // Kill the daemon of one mount, like a worker that runs out of memory. Its folder then fails.
  const dead = [...daemons].map((line) => Number(line.split(' ')[0])).find((pid) => argvOf(pid).at(-1) === mountPoint);
  assert.ok(dead !== undefined);
  process.kill(dead, 'SIGKILL');
  const isDead = await eventually(() => readdir(mountPoint).then(() => false, isNotConnected), { withinMs: 60_000 });
  assert.equal(isDead, true);
  assert.equal((await check()).code, 1);
  const again = await apply();
  assert.equal(again.code, 0, again.out);
  assert.match(again.out, /The mount at .*my bucket no longer responds; mounting it again\./);
  assert.deepEqual((await readdir(mountPoint)).toSorted(compareTexts), ['checkpoints', 'data']);
  assert.equal((await check()).code, 0);

  // Another file at the mount point is reported and left alone.
  const inTheWay = gcsfuseStep({ name: 'gcsfuse', mounts: [{ bucket: 'other', path: extra, cache: noCache }] });
  const refused = await host.start(inTheWay.apply);
  assert.equal(refused.code, 1);
  assert.match(refused.out, /Another file system is mounted at .*; unmount it, or choose another mount_path\.\n$/);
  // So is a folder that cannot be created.
  host.write('~/file', 'in the way\n');
  const nowhere = gcsfuseStep({ name: 'gcsfuse', mounts: [{ bucket: 'other', path: '~/file/b', cache: noCache }] });
  const failed = await host.start(nowhere.apply);
  assert.deepEqual(
    [failed.code, failed.out.trimEnd().split('\n').at(-1)],
    [1, `The folder ${home}/file/b cannot be created on this host.`],
  );
});

/**
 * Each worker repeatedly writes its own checkpoint (gcsfuse refuses two writers of one object), fails when its bucket
 * has failed, and ends when its file appears.
 */
const program = `grep -c "^shared $HOME/bucket fuse.gcsfuse " /proc/self/mounts
echo "begins from \${JOBMAN_RESUME_FROM:-nothing}"
while [ ! -e ~/bucket/go-$JOBMAN_ATTEMPT ]; do
  date >"$JOBMAN_CHECKPOINT_DIR/step_$JOBMAN_ATTEMPT.$JOBMAN_WORKER" || exit 3
  sleep 0.5
done
cat ~/bucket/input`;

test(
  "a job with a bucket that Google's gcsfuse mounts, and its next attempt after the daemon has died",
  { timeout: 400_000 },
  async (t) => {
    const gcsfuse = findUsable(t);
    if (gcsfuse === undefined) return;
    const world = openJobWorld(t);
    const cloud = world.start(['emulator', 'serve', '--speed', '60', '--gcsfuse', gcsfuse], {
      withinMs: 300_000,
    });
    await cloud.waitForOutput(/^READY /m, 60_000);
    mkdirSync(world.bucketPath('saved'), { recursive: true });
    await writeFile(world.bucketPath('input'), 'what was in the bucket\n');
    // In a folder of the manifest, each worker writes and reads through its own mount.
    const job = { checkpoint_dir: '~/bucket/saved/${job.id}', loop: 'failures' };
    const manifest = world.tpuManifest(program, { job });
    const id = await world.create(manifest);
    const saves = (attempt: number) => () =>
      readdirSync(world.bucketPath('saved'), { recursive: true }).some((name) =>
        String(name).endsWith(`/step_${attempt}.0`),
      );
    assert.ok(
      await eventually(saves(1), { withinMs: 120_000 }),
      'the checkpoint of the first attempt is in the bucket',
    );

    // Like a worker that runs out of memory: the folder fails, and so does the program.
    await world.runOk(['exec', id, '--workers', '0', '--', 'kill -9 $(pgrep -x gcsfuse)']);
    assert.ok(
      await eventually(saves(2), { withinMs: 120_000 }),
      'the checkpoint of the second attempt is in the bucket',
    );
    for (const attempt of [1, 2]) await writeFile(world.bucketPath(`go-${attempt}`), '');
    const { attempts } = await world.waitForFinish(id, 0, 120_000);
    assert.deepEqual(
      attempts.map(({ reason }) => reason),
      ['command_failed', 'succeeded'],
    );
    for (const worker of [0, 1]) {
      const log = world.readLog(id, worker).toString();
      assert.match(log, /^1\nbegins from .*\/bucket\/saved\/000001\/step_1\.\d\nwhat was in the bucket\n$/);
    }
  },
);

/** The kernel's view of a mount without its daemon, once the kernel has noticed. */
const isNotConnected = (error: unknown): boolean => String(error).includes('ENOTCONN');

/** Empty when the process has ended. */
function argvOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}

const compareTexts = (one: string, other: string): number => (one < other ? -1 : 1);

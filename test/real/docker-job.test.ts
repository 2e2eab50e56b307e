/**
 * Jobs whose command runs in a container on every worker of the TPU emulator, each with its own Docker: the environment
 * of the program, and its end, once and with all processes, whichever part is killed.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findSshd } from '../../src/emulator/hosts/sshd.ts';
import { hasDocker, openRegistry } from '../setup/dockerd.ts';
import { busyboxImage } from '../setup/image.ts';
import { eventually } from '../support/eventually.ts';
import { requireReal } from '../support/real.ts';
import { hasTerminal, runInTerminal } from '../support/run-in-terminal.ts';
import type { Scope } from '../support/world.ts';
import { sendSignal, openJobWorld, type JobWorld } from '../support/jobs.ts';

const needed = 'dockerd, docker, runc and a static busybox, as root';
const minute = 60_000;
/** Daemons start and stop slowly on a busy machine. */
const patience = 4 * minute;

/** A world with a registry for the images of its jobs; returns the image's name there. */
async function openDockerWorld(scope: Scope): Promise<{ world: JobWorld; image: string }> {
  const world = openJobWorld(scope);
  const image = `${await openRegistry(world, busyboxImage(world, 'flock'))}/lab/box:1`;
  mkdirSync(world.bucketPath(), { recursive: true });
  return { world, image };
}

/** The cgroups of the job's containers are removed at the end of the world. */
async function leavesNoCgroup(world: JobWorld, id: string): Promise<void> {
  const lines = await onWorkers(world, id, 'ps -o args= -C dockerd | grep -o "jobman-emulator-[0-9a-f]*"');
  const find = (name: string) => spawnSync('find', ['/sys/fs/cgroup', '-maxdepth', '2', '-name', name.trim()]);
  const left = () => lines.flatMap((name) => find(name).stdout.toString().split('\n').filter(Boolean));
  assert.ok(left().length >= lines.length, 'cgroups exist while the containers run');
  world.atEnd(async () => {
    await world.stopServices();
    assert.deepEqual(left(), []);
  });
}

/** The output of a shell line on every worker of a job. */
async function onWorkers(world: JobWorld, id: string, line: string, ...flags: readonly string[]): Promise<string[]> {
  const { stdout } = await world.runOk(['exec', id, '--json', ...flags, '--', line], { withinMs: patience });
  const lines = stdout.trim().split('\n');
  const answers = lines.map((text) => JSON.parse(text) as { worker: number; exitCode: number; stdout: string });
  return answers.toSorted((one, other) => one.worker - other.worker).map((answer) => answer.stdout);
}

test(
  'a command in containers has the environment, the files and the secrets of the worker',
  { timeout: 15 * minute },
  async (t) => {
    if (!requireReal(t, needed, hasDocker())) return;
    const { world, image } = await openDockerWorld(t);
    mkdirSync(join(world.folder, 'code'));
    writeFileSync(join(world.folder, 'code/file.txt'), 'from the working directory\n');
    writeFileSync(join(world.folder, 'secret'), 's3cret $HOME');
    const program = `printf '%s|' "$PLAIN" "$WRITTEN" "$JOBMAN_WORKER/$JOBMAN_WORKERS" "$TPU_WORKER_ID" "$FROM_IMAGE"; echo
pwd; cat file.txt; printf %s "$TOKEN" | md5sum
[ -z "$JOBMAN_RESUME_FROM" ] || { echo "resumes from $(cat "$JOBMAN_RESUME_FROM")"; exit 0; }
jobman mark step=$((JOBMAN_WORKER + 1)) loss=0.25
echo "$JOBMAN_WORKER of $JOBMAN_ATTEMPT" >"$JOBMAN_CHECKPOINT_DIR/part-$JOBMAN_WORKER"
until [ -e "\${JOBMAN_CHECKPOINT_DIR%/*/*}/go" ]; do sleep 0.2; done
exit $((JOBMAN_WORKER * 5))
`;
    const manifest = world.tpuManifest(program, {
      name: 'boxed',
      job: {
        workdir: 'code',
        checkpoint_dir: '~/bucket/saved',
        env: { PLAIN: 'it\'s "$x"' },
        secrets: { TOKEN: 'secret' },
        env_type: 'docker',
        loop: 'failures',
      },
      docker: {
        image,
        env_vars: ['WRITTEN=`x` \\'],
        mount_dirs: ['~/bucket', '/opt:/opt:ro'],
        flags: ['--network=host'],
      },
    });
    mkdirSync(world.bucketPath('saved'), { recursive: true });
    const id = await world.create(manifest);
    const parts = () =>
      readdirSync(world.bucketPath('saved'), { recursive: true }).join().match(/part-/g)?.length === 2;
    assert.ok(await eventually(parts, { withinMs: patience }), 'both workers have a checkpoint in the bucket');

    // `jobman ssh` enters the container and has the program's environment.
    const inside = await onWorkers(world, id, 'echo "$JOBMAN_WORKER $PLAIN $$"; cat file.txt', '--in-container');
    for (const [worker, output] of inside.entries()) {
      assert.match(output, new RegExp(`^${worker} it's "\\$x" \\d+\nfrom the working directory\n$`));
    }
    const written = await onWorkers(world, id, 'env | grep ^WRITTEN=', '--in-container');
    assert.deepEqual(written, ['WRITTEN=`x` \\\n', 'WRITTEN=`x` \\\n'], 'variables of docker.env_vars too');
    if (hasTerminal(t)) {
      // Docker sets the size shortly after the program has started.
      const program = 'until stty size 2>/dev/null | grep .; do sleep 1; done; env | grep ^WRITTEN=';
      const args = ['exec', id, '--workers', '0', '--in-container', '-it', '--', program];
      const shown = await runInTerminal(world, 93, args);
      assert.match(shown.screen, /24 93\r\nWRITTEN=`x` /);
    }
    await leavesNoCgroup(world, id);
    const containers = await onWorkers(world, id, 'docker ps --quiet | wc -l');
    assert.deepEqual(containers, ['1\n', '1\n']);
    const refused = await world.jobman(['setup', id, 'docker', '--force']);
    assert.equal(refused.code, 4, 'the image of a running command is not replaced');

    writeFileSync(world.bucketPath('go'), '');
    const first = await world.waitUntil(id, ({ attempts }) => attempts.length === 2, patience);
    assert.equal(first.attempts[0]?.reason, 'command_failed');
    const { attempts } = await world.waitForFinish(id, 0, patience);
    assert.equal(attempts.length, 2);
    const history = await world.output('history', id);
    assert.match(history, /exit code 5 on worker 1/);
    const digest = createHash('md5').update('s3cret $HOME').digest('hex');
    for (const worker of [0, 1]) {
      const points = await world.jsonRows<object>('plot', id, 'loss', '-w', String(worker), '--json', '--all');
      assert.partialDeepStrictEqual(points, [{ attempt: 1, worker, step: worker + 1, value: 0.25 }]);
      const logs = [1, 2].map((attempt) =>
        readFileSync(world.jobFolder(id, 'logs', `attempt_${attempt}`, `command_worker_${worker}.log`), 'utf8'),
      );
      const found = [
        `it's "$x"|\`x\` \\|${worker}/2|${worker}|kept|`,
        '/jobman/workdir',
        'from the working directory',
        `${digest}  -`,
      ];
      assert.equal(logs[0], `${found.join('\n')}\n`);
      assert.match(logs[1] ?? '', /\nresumes from [01] of 1\n$/);
    }
  },
);

for (const hosts of ['process', 'sshd'] as const) {
  test(`programs in containers end, whichever part is killed, ${hosts} hosts`, { timeout: 30 * minute }, async (t) => {
    const hasSshd = hosts === 'process' || findSshd(existsSync) !== undefined;
    if (!requireReal(t, hosts === 'sshd' ? `${needed}, and sshd` : needed, hasDocker() && hasSshd)) return;
    const { world, image } = await openDockerWorld(t);
    const serve = () => world.start(['emulator', 'serve', '--hosts', 'sshd']).waitForOutput('READY');
    if (hosts === 'sshd') await serve();
    // The kernel holds the lock as long as any process of an attempt lives.
    const nap = `8${process.pid}`;
    const program = `cd "$BUCKET"; exec 9>"lock.$JOBMAN_WORKER"
flock -n 9 || { echo "OVERLAP in attempt $JOBMAN_ATTEMPT" >>overlaps; exit 3; }
signalled=
if [ -e deaf ]; then trap '' TERM; else trap 'echo "signalled in attempt $JOBMAN_ATTEMPT"; signalled=yes' TERM; fi
echo "$JOBMAN_WORKER" >"begun.$JOBMAN_ATTEMPT.$JOBMAN_WORKER"
while [ -z "$signalled" ]; do sleep ${nap} & wait $!; done
# A second signal would be printed too.
sleep 1
`;
    const manifest = world.tpuManifest(program, {
      name: 'boxed',
      // On spot, a killed program would first wait half a minute for a preemption.
      tpu: { pricing: 'ondemand' },
      job: { stop_grace: '3s', loop: 'failures', checkpoint_dir: '~/bucket/saved', env: { BUCKET: '/shared' } },
      recovery: { budget: { failures: 20 }, delay: '500ms', delay_max: '500ms' },
      docker: { image, mount_dirs: ['~/bucket:/shared'] },
    });
    const id = await world.create(manifest);
    const alive = (): number => Number(spawnSync('pgrep', ['-cxf', `sleep ${nap}`]).stdout.toString());
    /** Waits until both workers run that attempt, each in one container. */
    const runs = async (attempt: number): Promise<void> => {
      const begun = () => [0, 1].every((worker) => existsSync(world.bucketPath(`begun.${attempt}.${worker}`)));
      assert.ok(
        await eventually(begun, { withinMs: patience }),
        `attempt ${attempt} begins: ${(await world.show(id)).why.message}`,
      );
      await world.waitForPhase(id, 'running', patience);
      assert.ok(await eventually(() => alive() === 2, { withinMs: patience }), `two programs run, not ${alive()}`);
      assert.deepEqual(await onWorkers(world, id, 'docker ps --quiet | wc -l'), ['1\n', '1\n']);
    };
    /** After the owner's stop everything has ended, and the TPU still exists. */
    const stopped = async (): Promise<void> => {
      await world.waitForPhase(id, 'stopped', patience);
      assert.equal(alive(), 0);
      assert.deepEqual(await onWorkers(world, id, 'docker ps --all --quiet | wc -l'), ['0\n', '0\n']);
    };
    let attempt = 1;
    const resume = async (): Promise<void> => {
      await world.runOk(['resume', id]);
      await runs((attempt += 1));
    };

    await t.test('stop reaches the program in the container', async () => {
      await runs(attempt);
      await leavesNoCgroup(world, id);
      await world.runOk(['stop', id]);
      await stopped();
      // A shell may report its terminated sleep, which receives the signal as well.
      const reportOf = (worker: number) =>
        world
          .readLog(id, worker)
          .toString()
          .match(/^signalled .*$/gm);
      for (const worker of [0, 1]) assert.deepEqual(reportOf(worker), ['signalled in attempt 1']);
    });

    await t.test('the image is pulled again on request', async () => {
      const { stdout } = await world.runOk(['setup', id, 'docker', '--force']);
      assert.match(stdout, /Image is up to date/);
    });

    await t.test(
      'a program that ignores the signal is killed, by the next controller if the first is killed',
      async () => {
        writeFileSync(world.bucketPath('deaf'), '');
        await resume();
        await world.runOk(['stop', id]);
        await world.waitForPhase(id, 'stopping', patience);
        assert.ok(await world.killController());
        await world.runOk(['controller', 'start']);
        await stopped();
      },
    );

    const faults = {
      'the daemon is killed': 'kill -9 "$(cat /run/docker.pid)"',
      'the daemon is restarted': 'systemctl restart docker',
      "docker's client is killed": "pkill -9 -f '^docker run'",
    };
    for (const [fault, line] of Object.entries(faults)) {
      await t.test(`${fault}: the next attempt starts after all processes have ended`, async () => {
        if (attempt === 2) await resume();
        await onWorkers(world, id, line, '--workers', '0');
        await runs((attempt += 1));
      });
    }

    await t.test('a lost connection restarts nothing, and a later stop succeeds', async () => {
      for (const { pid } of world.processesMatching('emulator serve')) sendSignal(pid, 'SIGKILL');
      // Otherwise jobman would start the emulator again with the default kind of hosts.
      if (hosts === 'sshd') await serve();
      await world.runOk(['stop', id]);
      await stopped();
      assert.equal((await world.show(id)).attempts.length, attempt);
    });

    await t.test('a cancelled job leaves no daemon', async () => {
      await resume();
      await world.runOk(['cancel', id]);
      await world.waitForPhase(id, 'cancelled', patience);
      assert.equal(alive(), 0);
      assert.ok(await eventually(() => world.processesMatching('dockerd').length === 0, { withinMs: patience }));
    });
    assert.equal(
      existsSync(world.bucketPath('overlaps')) ? readFileSync(world.bucketPath('overlaps'), 'utf8') : '',
      '',
    );
  });
}

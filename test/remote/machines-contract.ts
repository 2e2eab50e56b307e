/**
 * The contract of every MachinePort, over every transport: the same tests for this machine (natively and through
 * several shells) and for SSH. All processes are real; a host is a home folder with a space in its name.
 */
import { inspect } from 'node:util';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { MachinePort, TailRequest, WorkerRef } from '../../src/app/ports.ts';
import type { Launch } from '../../src/core/decide/launch.ts';
import { withLifecycle } from '../../src/core/model/job.ts';
import type { Attempt, Job } from '../../src/core/model/job.ts';
import type { OutcomeResult, RunStatus, WorkerStatus } from '../../src/core/model/observation.ts';
import type { SetupStep } from '../../src/core/model/spec.ts';
import { eventually } from '../support/eventually.ts';

/** A host to test on. */
export interface HostFixture {
  readonly machines: MachinePort;
  readonly ref: WorkerRef;
  /** The run folder of the job on the disk. */
  readonly root: string;
  /** The home folder of the host. */
  readonly home: string;
  /** The file that the host takes its boot id from. */
  readonly bootIdFile: string;
  /** Output of the steps, `name: text`. */
  readonly stepLog: string[];
}

/**
 * A job with only the fields that machines read. Its installation is this process's own: all hosts of all test files are one
 * machine, where a stop finds every process with its marker.
 */
export function testRef(id: string, worker: WorkerRef['worker'] = 0): WorkerRef {
  return {
    job: { id, installation: `t${process.pid}`, attempts: [] as readonly Attempt[] },
    allocation: { ordinal: 1, name: 'node-one' },
    worker,
  } as WorkerRef;
}

export function launchOf(attempt: number, script: string, more: Partial<Launch> = {}): Launch {
  const base = { script, env: {}, workdir: null, checkpointDir: null, resume: false };
  return { ...base, attempt: { ordinal: attempt } as Launch['attempt'], ...more };
}

export async function observe(ground: HostFixture): Promise<WorkerStatus> {
  const [fact] = await ground.machines.observe([ground.ref]);
  assert.ok(fact?.kind === 'known', `the observation failed: ${JSON.stringify(fact)}`);
  return fact.value;
}

/** The same worker, by a record that says the first attempt was started there. */
function recordedAsStarted({ ref }: HostFixture): WorkerRef {
  const attempt = { ordinal: 1, allocation: 1, startedAt: 1, endedAt: null } as Attempt;
  const spec = { command: { runsOn: ref.worker === 'controller' ? 'controller' : 'workers', workers: 'all' } };
  return {
    ...ref,
    job: { ...ref.job, spec, attempts: [attempt] } as unknown as Job,
    allocation: withLifecycle({ ...ref.allocation, workers: 1 }),
  };
}

/** Observes until that attempt is in that state. */
export async function waitForRun(ground: HostFixture, attempt: number, state: RunStatus['state']): Promise<RunStatus> {
  let last: RunStatus | undefined;
  const reached = await eventually(
    async () => {
      last = (await observe(ground)).runs.find((run) => run.attempt === attempt);
      return last?.state === state ? last : undefined;
    },
    { withinMs: 15_000, everyMs: 50 },
  );
  assert.ok(reached, `attempt ${attempt} did not become ${state}; it is ${JSON.stringify(last)}`);
  return reached;
}

export interface TailResult {
  readonly bytes: Buffer;
  readonly end: string;
}

/** Everything from that byte on, to the end or the drop. */
export function tail(
  ground: HostFixture,
  attempt: number,
  from = 0,
  file: TailRequest['file'] = 'log',
): Promise<TailResult> {
  const chunks: Uint8Array[] = [];
  return new Promise((resolve) => {
    const finish = (end: string): void => {
      resolve({ bytes: Buffer.concat(chunks), end });
    };
    ground.machines.tail(
      ground.ref,
      { attempt, file, from },
      {
        bytes(chunk) {
          chunks.push(chunk);
        },
        ended: () => {
          finish('ended');
        },
        dropped: finish,
      },
    );
  });
}

function logOf(ground: HostFixture, attempt: number): Buffer {
  return readFileSync(join(ground.root, `attempt_${attempt}`, 'log'));
}

function assertDone(result: OutcomeResult): void {
  assert.deepEqual(result, { kind: 'done' });
}

async function start(ground: HostFixture, ...launch: Parameters<typeof launchOf>): Promise<void> {
  assertDone(await ground.machines.start(ground.ref, launchOf(...launch)));
}

/** Runs it to its end; all that it printed. */
async function outputOf(ground: HostFixture, ...launch: Parameters<typeof launchOf>): Promise<string> {
  await start(ground, ...launch);
  await waitForRun(ground, launch[0], 'exited');
  return logOf(ground, launch[0]).toString();
}

/** The checkpoint that an attempt with these settings is told to resume from; `none` without one. */
async function resumedFrom(ground: HostFixture, attempt: number, more: Partial<Launch>): Promise<string> {
  return (await outputOf(ground, attempt, 'printf "%s\\n" "${JOBMAN_RESUME_FROM-none}"', more)).trimEnd();
}

/** The exit code with which that attempt has ended. */
async function exitCodeOf(ground: HostFixture, attempt: number): Promise<number | undefined> {
  const run = await waitForRun(ground, attempt, 'exited');
  return run.state === 'exited' ? run.exitCode : undefined;
}

/** Pids that a test's program wrote into files of the home folder. */
async function pidIn(ground: HostFixture, name: string): Promise<number> {
  const text = await eventually(() => {
    const file = join(ground.home, name);
    return existsSync(file) && readFileSync(file, 'utf8').endsWith('\n') ? readFileSync(file, 'utf8') : undefined;
  });
  assert.ok(text, `no process wrote its number into ${name}`);
  return Number(text);
}

/** A process that only its parent's question keeps in the books does not count. */
function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /u.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

function stepOf(key: string, check: string | null, apply: string, more: Partial<SetupStep> = {}): SetupStep {
  return { name: `step-${key}`, key, check, apply, files: [], timeoutMs: 20_000, ...more };
}

/** Each test opens a host of its own, so that several run at once: most of their time is waiting. */
export function machinesContract(name: string, open: (t: TestContext) => Promise<HostFixture | undefined>): void {
  describe(name, { concurrency: 4 }, () => {
    contract(open);
  });
}

function contract(open: (t: TestContext) => Promise<HostFixture | undefined>): void {
  const on = (title: string, body: (ground: HostFixture, t: TestContext) => Promise<void>): void => {
    test(title, async (t) => {
      const ground = await open(t);
      if (ground !== undefined) await body(ground, t);
    });
  };

  on('a host that has seen nothing of the job says so', async (ground) => {
    const worker = await observe(ground);
    assert.equal(worker.bootId, 'boot-one');
    assert.deepEqual(worker.runs, []);
    assert.deepEqual(worker.proofs, []);
  });

  on('a command that is started many times at once runs once', async (ground) => {
    const launch = launchOf(1, 'echo ran >>"$HOME/times"\nsleep 0.2\nexit 3\n');
    const results = await Promise.all(Array.from({ length: 6 }, () => ground.machines.start(ground.ref, launch)));
    for (const result of results) assertDone(result);
    assert.equal(await exitCodeOf(ground, 1), 3);
    assertDone(await ground.machines.start(ground.ref, launch));
    assert.equal(readFileSync(join(ground.home, 'times'), 'utf8'), 'ran\n');
    assert.deepEqual(
      readdirSync(ground.root).filter((entry) => entry.startsWith('start_')),
      [],
      'those who came second leave nothing',
    );
  });

  on('what was set up in another boot starts nothing, and the next start is like the first', async (ground) => {
    const launch = launchOf(1, 'echo ran >>"$HOME/times"\n');
    const refusal = await ground.machines.start(ground.ref, { ...launch, bootId: 'another boot' });
    assert.match(refusal.kind === 'failed' ? refusal.evidence.message : refusal.kind, /rebooted after setup/);
    assert.deepEqual((await observe(ground)).runs, []);
    const { bootId } = await observe(ground);
    assertDone(await ground.machines.start(ground.ref, { ...launch, bootId }));
    await waitForRun(ground, 1, 'exited');
    assertDone(await ground.machines.start(ground.ref, { ...launch, bootId: 'another boot' }));
    assert.equal(readFileSync(join(ground.home, 'times'), 'utf8'), 'ran\n');
    assert.deepEqual(
      readdirSync(ground.root).filter((entry) => entry.startsWith('start_')),
      [],
    );
  });

  on('the program sees its variables, its folder and its marker, whatever characters they contain', async (ground) => {
    const workdir = join(ground.home, "it's a folder");
    mkdirSync(workdir);
    const value = `two\nlines, 'quotes', "more", $HOME \`id\` \\ ü`;
    const script =
      'printf "%s|%s|%s|%s|%s" "$PWD" "$VALUE" "$folder" "$JOBMAN_RUN" "${JOBMAN_RESUME_FROM-none}"; umask >&2';
    const env = { VALUE: value, folder: 'mine', dir: 'mine', marker: 'mine' };
    await start(ground, 1, script, { env, workdir });
    await waitForRun(ground, 1, 'exited');
    const { job, worker } = ground.ref;
    const marker = `${job.installation}/${job.id}/1/${worker}`;
    const [output = '', mask = ''] = logOf(ground, 1)
      .toString()
      .split(/(?<=none)/u);
    assert.equal(output, `${workdir}|${value}|mine|${marker}|none`);
    assert.notEqual(mask.trim(), '0077', 'files of the program are not more private than the login makes them');
    assert.equal(statSync(join(ground.root, 'attempt_1', 'env')).mode & 0o777, 0o600);
  });

  on('a script that names its interpreter gets it', async (ground) => {
    assert.equal(await outputOf(ground, 1, '#!/bin/cat\na script\n'), '#!/bin/cat\na script\n');
  });

  on('a folder that is not there is said in the log and ends the run', async (ground) => {
    await start(ground, 1, 'echo ran', { workdir: '/no/such/folder' });
    assert.equal(await exitCodeOf(ground, 1), 126);
    assert.match(logOf(ground, 1).toString(), /\/no\/such\/folder/u);
  });

  on('a variable that no environment can hold is refused', async (ground) => {
    const result = await ground.machines.start(ground.ref, launchOf(1, 'true', { env: { 'A-B': 'x' } }));
    assert.equal(result.kind, 'refused');
    assert.deepEqual((await observe(ground)).runs, []);
  });

  on('a program that a signal ends has 128 and its number as exit code', async (ground) => {
    await start(ground, 1, '#!/bin/sh\nkill -s SEGV $$\n');
    const run = await waitForRun(ground, 1, 'exited');
    assert.deepEqual(
      { ...run, endedAt: 0 },
      { attempt: 1, state: 'exited', exitCode: 139, signal: 'SEGV', endedAt: 0 },
    );
    assert.equal(logOf(ground, 1).length, 0, 'the log is the program’s alone');
  });

  on('a program that is asked may save its work and ends with its own code', async (ground) => {
    const script = `#!/bin/sh
trap 'sleep 0.3; echo saved; exit 5' TERM
echo ready
while :; do sleep 0.1; done
`;
    await start(ground, 1, script);
    assert.ok(await eventually(() => logOf(ground, 1).length > 0));
    assertDone(await ground.machines.stop(ground.ref, 1, 'stop', 'TERM'));
    const run = await waitForRun(ground, 1, 'exited');
    assert.equal(run.state === 'exited' && run.exitCode, 5);
    assert.match(
      logOf(ground, 1).toString(),
      /^ready\n(?:Terminated\n)?saved\n$/u,
      'the shell may print a line itself',
    );
    assertDone(await ground.machines.stop(ground.ref, 1, 'stop', 'TERM'));
    assertDone(await ground.machines.stop(ground.ref, 1, 'kill', 'TERM'));
    assert.deepEqual(await waitForRun(ground, 1, 'exited'), run, 'a later stop changes nothing');
  });

  on('a child that saves its work after its shell has died is waited for', async (ground) => {
    const child = `trap 'sleep 0.7; echo saved' TERM; echo ready; sleep 30 & wait $!`;
    await start(ground, 1, `#!/bin/sh\nsh -c "${child}" &\nsleep 30\n`);
    assert.ok(await eventually(() => logOf(ground, 1).length > 0));
    assertDone(await ground.machines.stop(ground.ref, 1, 'stop', 'TERM'));
    await waitForRun(ground, 1, 'exited');
    assert.match(
      logOf(ground, 1).toString(),
      /^ready\n(?:Terminated\n)?saved\n$/u,
      'the shell may print a line itself',
    );
  });

  on('a kill ends children that ignore signals, have their own session or were left behind', async (ground) => {
    const script = `trap '' TERM INT HUP
sh -c 'trap "" TERM; echo $$ >"$HOME/stubborn"; while :; do sleep 1; done' &
setsid sh -c 'echo $$ >"$HOME/daemon"; exec sleep 60' &
( sh -c 'echo $$ >"$HOME/grandchild"; exec sleep 60' & )
env -i HOME="$HOME" /bin/sh -c 'echo $$ >"$HOME/bare"; exec /bin/sleep 60' &
while :; do sleep 1; done
`;
    await start(ground, 1, script);
    const pids = await Promise.all(['stubborn', 'daemon', 'grandchild', 'bare'].map((file) => pidIn(ground, file)));
    assertDone(await ground.machines.stop(ground.ref, 1, 'stop', 'TERM'));
    assert.equal((await waitForRun(ground, 1, 'running')).state, 'running');
    assertDone(await ground.machines.stop(ground.ref, 1, 'kill', 'TERM'));
    for (const pid of pids) assert.equal(isAlive(pid), false, `process ${pid} of ${String(pids)} is still alive`);
    const run = await waitForRun(ground, 1, 'exited');
    assert.deepEqual(
      { ...run, endedAt: 0 },
      { attempt: 1, state: 'exited', exitCode: 137, signal: 'KILL', endedAt: 0 },
    );
  });

  on('a program whose folder was taken away counts as alive until a stop has ended it', async (ground) => {
    const script = `trap '' TERM\nsetsid sh -c 'echo $$ >"$HOME/daemon"; exec sleep 60' &\necho $$ >"$HOME/program"\nwhile :; do sleep 1; done\n`;
    await start(ground, 1, script);
    const pids = await Promise.all(['program', 'daemon'].map((file) => pidIn(ground, file)));
    rmSync(ground.root, { recursive: true });
    const after: HostFixture = { ...ground, ref: recordedAsStarted(ground) };
    assert.equal((await waitForRun(after, 1, 'starting')).state, 'starting');
    assertDone(await ground.machines.stop(after.ref, 1, 'stop', 'TERM'));
    assert.equal((await waitForRun(after, 1, 'starting')).state, 'starting', 'it may still be saving its work');
    assertDone(await ground.machines.stop(after.ref, 1, 'kill', 'TERM'));
    for (const pid of pids) assert.equal(isAlive(pid), false, `process ${pid} of ${String(pids)} is still alive`);
    assert.equal((await waitForRun(after, 1, 'vanished')).state, 'vanished');
    assertDone(await ground.machines.start(after.ref, launchOf(1, 'echo ran >"$HOME/ran"')));
    assert.equal(existsSync(join(ground.home, 'ran')), false, 'what was stopped is not started again');
  });

  on('what a program leaves behind is ended with it', async (ground) => {
    await start(ground, 1, `setsid sleep 60 &\necho $! >"$HOME/left"\nexit 4\n`);
    const pid = await pidIn(ground, 'left');
    assert.equal(await exitCodeOf(ground, 1), 4);
    assert.equal(isAlive(pid), false);
  });

  on('an attempt that was stopped before it was started never runs', async (ground) => {
    assertDone(await ground.machines.stop(ground.ref, 1, 'kill', 'TERM'));
    await start(ground, 1, 'echo ran >"$HOME/ran"');
    const run = await waitForRun(ground, 1, 'vanished');
    assert.match(run.state === 'vanished' ? run.detail : '', /stopped before it started/u);
    assert.equal(existsSync(join(ground.home, 'ran')), false);
  });

  on('a start that was cut in the middle is first starting and then vanished', async (ground) => {
    const folder = join(ground.root, 'attempt_1');
    mkdirSync(folder, { recursive: true });
    assert.equal((await waitForRun(ground, 1, 'starting')).state, 'starting');
    const longAgo = new Date(Date.now() - 60_000);
    utimesSync(folder, longAgo, longAgo);
    const run = await waitForRun(ground, 1, 'vanished');
    assert.match(run.state === 'vanished' ? run.detail : '', /start was interrupted before the command ran/u);
    await start(ground, 1, 'echo ran >"$HOME/ran"');
    assert.equal(
      existsSync(join(ground.home, 'ran')),
      false,
      'it is not known that nothing ran, so it is not run again',
    );
  });

  on('a program that is killed from outside with its launcher has vanished', async (ground) => {
    await start(ground, 1, 'echo $$ >"$HOME/program"\necho text\nexec sleep 60\n');
    const program = await pidIn(ground, 'program');
    const launcher = Number(readFileSync(join(ground.root, 'attempt_1', 'pid'), 'utf8').split(' ')[0]);
    const followed = tail(ground, 1);
    process.kill(launcher, 'SIGKILL');
    assert.equal(
      (await waitForRun(ground, 1, 'running')).state,
      'running',
      'the program is alive without its launcher',
    );
    process.kill(program, 'SIGKILL');
    const run = await waitForRun(ground, 1, 'vanished');
    assert.match(run.state === 'vanished' ? run.detail : '', /another program killed its processes/u);
    const { bytes, end } = await followed;
    assert.equal(end, 'ended');
    assert.equal(bytes.toString(), 'text\n');
  });

  on('after a reboot a reused process id is neither ours nor killed', async (ground, t) => {
    const innocent = spawn('sleep', ['60'], { stdio: 'ignore', detached: true });
    t.after(async () => {
      innocent.kill('SIGKILL');
      await once(innocent, 'exit');
    });
    assert.ok(innocent.pid);
    const ticks = readFileSync(`/proc/${innocent.pid}/stat`, 'latin1')
      .replace(/^.*\) /su, '')
      .split(' ')[19];
    const folder = join(ground.root, 'attempt_1');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'log'), 'from before\n');
    writeFileSync(join(folder, 'pid'), `${innocent.pid} ${ticks} boot-one 1000000000000\n`);
    assert.equal(
      (await waitForRun(ground, 1, 'running')).state,
      'running',
      'the control: under the same boot it is the one',
    );
    writeFileSync(join(folder, 'pid'), `${innocent.pid} ${Number(ticks) + 1} boot-one 1000000000000\n`);
    await waitForRun(ground, 1, 'vanished');
    writeFileSync(join(folder, 'pid'), `${innocent.pid} ${ticks} boot-one 1000000000000\n`);
    writeFileSync(ground.bootIdFile, 'boot-two\n');
    const worker = await observe(ground);
    assert.equal(worker.bootId, 'boot-two');
    const [run] = worker.runs;
    assert.ok(run?.state === 'vanished');
    assert.match(run.detail, /restarted/u);
    assertDone(await ground.machines.stop(ground.ref, 1, 'stop', 'TERM'));
    assertDone(await ground.machines.stop(ground.ref, 1, 'kill', 'TERM'));
    assert.equal(isAlive(innocent.pid), true);
  });

  on('output comes byte for byte, from any byte on: long lines, binary, none', async (ground) => {
    const script = `head -c 3000000 /dev/zero | tr '\\0' x
printf '\\000\\377\\r\\n\\033[1m'
head -c 100000 /dev/urandom
sleep 0.5
printf end`;
    await start(ground, 1, script);
    const [whole, part] = await Promise.all([tail(ground, 1), tail(ground, 1, 2_999_999)]);
    const log = logOf(ground, 1);
    assert.equal(log.length, 3_100_011);
    assert.equal(whole.end, 'ended');
    assert.ok(whole.bytes.equals(log));
    assert.ok(part.bytes.equals(log.subarray(2_999_999)));
    const late = await tail(ground, 1, log.length - 3);
    assert.equal(`${late.bytes.toString()} ${late.end}`, 'end ended');
    await start(ground, 2, 'true');
    assert.deepEqual(await tail(ground, 2), { bytes: Buffer.alloc(0), end: 'ended' });
    const missing = await tail(ground, 3);
    assert.notEqual(missing.end, 'ended');
  });

  on('what a program reports with jobman mark is observed, and copied from any byte', async (ground) => {
    const script = `jobman mark step=1 loss=0.5 && "$JOBMAN_MARK" step=2 loss=nan && sh -c 'jobman mark step=3'
echo step=4 >>"$JOBMAN_METRICS"
printf 'and no more'`;
    await start(ground, 1, script);
    await waitForRun(ground, 1, 'exited');
    await start(ground, 2, 'true');
    await waitForRun(ground, 2, 'exited');
    assert.deepEqual((await observe(ground)).reportedMetrics, [1]);
    assert.equal(logOf(ground, 1).toString(), 'and no more');
    const whole = await tail(ground, 1, 0, 'metrics');
    assert.equal(whole.end, 'ended');
    assert.match(whole.bytes.toString(), /^\d{13} step=1 loss=0\.5\n\d{13} step=2 loss=nan\n\d{13} step=3\nstep=4\n$/);
    const part = await tail(ground, 1, whole.bytes.length - 7, 'metrics');
    assert.equal(`${part.bytes.toString()}${part.end}`, 'step=4\nended');
    assert.deepEqual(await tail(ground, 2, 0, 'metrics'), { bytes: Buffer.alloc(0), end: 'ended' });
  });

  on('output arrives while the program runs, and nothing after the tail was called off', async (ground) => {
    await start(ground, 1, 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done');
    let text = '';
    const callOff = ground.machines.tail(
      ground.ref,
      { attempt: 1, file: 'log', from: 0 },
      {
        bytes(chunk) {
          text += Buffer.from(chunk).toString();
          if (text.includes('2')) callOff();
        },
        ended: () => assert.fail('ended after it was called off'),
        dropped: () => assert.fail('dropped after it was called off'),
      },
    );
    assert.ok(await eventually(() => text.includes('2')));
    assert.equal((await waitForRun(ground, 1, 'running')).state, 'running');
    const before = text;
    await waitForRun(ground, 1, 'exited');
    assert.equal(text, before);
  });

  on('a slow receiver gets every byte', async (ground) => {
    await start(ground, 1, 'head -c 4000000 /dev/urandom');
    const chunks: Uint8Array[] = [];
    let inside = 0;
    await new Promise<void>((resolve, reject) => {
      ground.machines.tail(
        ground.ref,
        { attempt: 1, file: 'log', from: 0 },
        {
          async bytes(chunk) {
            inside += 1;
            assert.equal(inside, 1, 'one chunk at a time');
            chunks.push(chunk);
            await new Promise((next) => {
              setTimeout(next, 1);
            });
            inside -= 1;
          },
          ended: resolve,
          dropped: reject,
        },
      );
    });
    assert.ok(Buffer.concat(chunks).equals(logOf(ground, 1)));
  });

  on('a resumed attempt gets the newest complete checkpoint', async (ground) => {
    const folder = join(ground.home, 'check points');
    const at = (name: string, seconds: number): void => {
      mkdirSync(join(folder, name), { recursive: true });
      utimesSync(join(folder, name), seconds, seconds);
    };
    mkdirSync(folder);
    const run = (attempt: number, resume: boolean, checkpointDir = folder): Promise<string> =>
      resumedFrom(ground, attempt, { resume, checkpointDir });
    assert.equal(await run(1, true), folder, 'an empty folder itself');
    at('step_9', 1_000);
    at('step_10', 1_000);
    at('.hidden', 9_000);
    at('step_11.tmp', 9_000);
    at('12.orbax-checkpoint-tmp-77', 9_000);
    at('partial_13', 9_000);
    at('step_14-partial', 9_000);
    assert.equal(await run(2, true), join(folder, 'step_10'), 'of the same age the later in order of numbers');
    at('temporal_1', 2_000);
    at('partially', 1_500);
    assert.equal(await run(3, true), join(folder, 'temporal_1'), 'only whole words count');
    assert.equal(await run(4, false), 'none');
    assert.equal(await run(5, true, '~/check points'), join(folder, 'temporal_1'));
    const missing = join(ground.home, 'not there');
    assert.equal(await run(6, true, missing), missing);
    const reported = async (attempt: number) => (await waitForRun(ground, attempt, 'exited')).resumedFrom;
    assert.deepEqual(await reported(1), { entry: null, savedAt: null });
    assert.deepEqual(await reported(2), { entry: 'step_10', savedAt: 1_000_000 });
    assert.equal(await reported(4), undefined);
  });

  on('a resumed attempt gets no checkpoint that its job has not written', async (ground) => {
    const folder = join(ground.home, 'own checkpoints');
    const make = (name: string, seconds: number, text = name): void => {
      writeFileSync(join(folder, name), text);
      utimesSync(join(folder, name), seconds, seconds);
    };
    const run = (attempt: number, resume: boolean, checkpointOwner: string): Promise<string> =>
      resumedFrom(ground, attempt, { resume, checkpointDir: folder, checkpointOwner });
    mkdirSync(folder);
    make('step_99', 9_000_000_000);
    mkdirSync(join(folder, 'step_98'));
    writeFileSync(join(folder, 'step_98', 'weights'), 'old');
    assert.equal(await run(1, false, 'abc/000001/1'), 'none');
    assert.equal(
      await run(2, true, 'abc/000001/1'),
      'none',
      'what was there before counts for nothing, also not the folder',
    );
    // Its clock is far behind the clocks of the writers of the other entries.
    make('step_1', 1_000);
    assert.equal(await run(3, true, 'abc/000001/1'), join(folder, 'step_1'));
    assert.equal(await run(4, true, 'abc/000002/1'), 'none', 'of another job nothing counts');
    assert.equal(await run(5, true, 'abc/000001/1'), 'none', 'the other job has begun there since');
    make('step_2', 2_000);
    assert.equal(await run(6, true, 'abc/000001/1'), join(folder, 'step_2'));
    assert.equal(await run(7, false, 'abc/000001/7'), 'none');
    assert.equal(await run(8, true, 'abc/000001/7'), 'none', 'a start from the beginning forgets what was before it');
    make('step_2', 1_500, 'another size');
    assert.equal(await run(9, true, 'abc/000001/7'), join(folder, 'step_2'), 'written again');
    writeFileSync(join(folder, 'step_98', 'weights'), 'newer');
    utimesSync(join(folder, 'step_98'), 1_600, 1_600);
    assert.equal(await run(10, true, 'abc/000001/7'), join(folder, 'step_98'), 'a folder whose files have changed');
  });

  on('workers that start one after the other resume from the same checkpoint', async (ground) => {
    const folder = join(ground.home, 'of both workers');
    const run = async (attempt: number, worker: string, resume: boolean, owner: string): Promise<string> => {
      const more = { resume, checkpointDir: folder, checkpointOwner: owner, env: { JOBMAN_WORKER: worker } };
      return resumedFrom(ground, attempt, more);
    };
    const own = 'abc/000001/1';
    assert.equal(await run(1, '0', false, own), 'none');
    writeFileSync(join(folder, 'step_1'), 'written before the other worker has started');
    assert.equal(await run(2, '1', false, own), 'none');
    assert.equal(await run(3, '1', true, own), join(folder, 'step_1'));
    // A mounted bucket may show a file that another worker has replaced as unreadable.
    rmSync(join(folder, '.jobman-start.1'));
    mkdirSync(join(folder, '.jobman-start.1'));
    assert.equal(await run(4, '0', true, own), join(folder, 'step_1'));
    rmSync(join(folder, '.jobman-start.1'), { recursive: true });
    assert.equal(await run(5, '0', false, 'abc/000002/1'), 'none');
    writeFileSync(join(folder, 'step_2'), 'of the other job');
    assert.equal(await run(6, '1', true, own), 'none', 'another job has begun there since');
    assert.equal(await run(7, '0', true, own), 'none');
  });

  on('a record of the checkpoint folder that is a FIFO, a device or a folder holds nothing up', async (ground) => {
    const marker = join(ground.home, 'marker');
    const script = 'printf "%s\\n" "${JOBMAN_RESUME_FROM-none}"';
    const elsewhere = join(ground.home, 'elsewhere');
    mkdirSync(elsewhere);
    const hostileEntries: readonly ((path: string) => void)[] = [
      (path) => execFileSync('mkfifo', [path]),
      (path) => symlinkSync('/dev/zero', path),
      // As root, reading it waits for the kernel's next message.
      (path) => symlinkSync('/proc/kmsg', path),
      (path) => symlinkSync(elsewhere, path),
      (path) => mkdirSync(path),
      (path) => writeFileSync(path, Buffer.alloc(20 * 1024 * 1024)),
      (path) => writeFileSync(path, `$(touch ${marker})\n\`touch ${marker}\`\t1\n`),
    ];
    for (const [index, createEntry] of hostileEntries.entries()) {
      const folder = join(ground.home, `hostile ${index}`);
      mkdirSync(folder);
      for (const name of [`$(touch ${marker.replaceAll('/', '_')})`, '-rf', 'a\nstep_1\tx', '*']) {
        writeFileSync(join(folder, name), '');
      }
      createEntry(join(folder, '.jobman-start.0'));
      for (const resume of [false, true]) {
        const attempt = 2 * index + (resume ? 2 : 1);
        const more = { resume, checkpointDir: folder, checkpointOwner: 'abc/000001/1' };
        await start(ground, attempt, script, more);
        await waitForRun(ground, attempt, 'exited');
        assert.equal(logOf(ground, attempt).toString(), 'none\n', `${index} ${resume}`);
      }
      assert.equal(existsSync(marker), false);
      assert.deepEqual(readdirSync(elsewhere), []);
    }
  });

  on('a checkpoint folder with thousands of entries does not hold up a start', async (ground) => {
    const folder = join(ground.home, 'many');
    mkdirSync(folder);
    for (let index = 0; index < 5_000; index += 1) writeFileSync(join(folder, `step_${index}`), '');
    const run = (attempt: number, resume: boolean): Promise<string> =>
      resumedFrom(ground, attempt, { resume, checkpointDir: folder, checkpointOwner: 'abc/000001/1' });
    const begin = performance.now();
    assert.equal(await run(1, false), 'none');
    assert.equal(await run(2, true), 'none');
    mkdirSync(join(folder, ' own  one'));
    mkdirSync(join(folder, ' own  one', 'empty'));
    assert.equal(await run(3, true), join(folder, ' own  one'));
    writeFileSync(join(folder, 'step_7'), 'written again');
    utimesSync(join(folder, 'step_7'), new Date(), new Date(Date.now() + 60_000));
    assert.equal(await run(4, true), join(folder, 'step_7'));
    assert.ok(performance.now() - begin < 30_000, 'it takes seconds, not a few processes for each entry');
  });

  on('a folder that is not there yet is made, and named while it is empty', async (ground) => {
    const folder = join(ground.home, 'new', 'checkpoints');
    const script = 'ls -d "$JOBMAN_CHECKPOINT_DIR"; printf "%s\\n" "${JOBMAN_RESUME_FROM-none}"';
    const more = { resume: true, checkpointDir: folder, checkpointOwner: 'abc/000001/1' };
    for (const attempt of [1, 2]) {
      await start(ground, attempt, script, more);
      await waitForRun(ground, attempt, 'exited');
      assert.equal(logOf(ground, attempt).toString(), `${folder}\n${folder}\n`);
    }
  });

  on('a job begins from the checkpoint that its manifest names until it has one of its own', async (ground) => {
    const [own, other] = [join(ground.home, 'own'), join(ground.home, 'other')];
    for (const folder of [own, other]) mkdirSync(folder);
    const run = (attempt: number, resume: boolean, resumeFrom: Launch['resumeFrom']): Promise<string> =>
      resumedFrom(ground, attempt, {
        resume,
        checkpointDir: own,
        checkpointOwner: 'abc/000002/1',
        ...(resumeFrom && { resumeFrom }),
      });
    const job = { kind: 'folder', path: other, job: '000001' } as const;
    assert.match(await run(1, false, job), /^jobman: job\.resume_from found no checkpoint of job 000001 at .*other/);
    writeFileSync(join(other, 'step_4'), '');
    writeFileSync(join(other, '.jobman-start.1'), 'abc/000001/1\n');
    assert.equal(await run(2, false, job), join(other, 'step_4'));
    assert.equal(await run(3, true, job), join(other, 'step_4'), 'it has none of its own yet');
    assert.equal(await run(4, true, { kind: 'entry', path: join(other, 'step_4') }), join(other, 'step_4'));
    assert.match(await run(5, true, { kind: 'entry', path: '~/nothing' }), /found no checkpoint at .*nothing/);
    writeFileSync(join(own, 'step_5'), '');
    assert.equal(await run(6, true, job), join(own, 'step_5'));
    assert.equal(await run(7, false, job), join(other, 'step_4'), 'from the beginning is from there');
    rmSync(join(other, '.jobman-start.1'));
    writeFileSync(join(other, '.jobman-start.0'), 'abc/000003/1\n');
    assert.match(await run(8, false, job), /^jobman: job\.resume_from found no checkpoint of job 000001/);
    assert.equal(await run(9, false, { kind: 'entry', path: 'gs://b/step_1' }), 'gs://b/step_1');
  });

  on('the checkpoint folder is an absolute path to the program, whatever way it was written', async (ground) => {
    const launch = launchOf(1, 'printf "%s\\n" "$JOBMAN_CHECKPOINT_DIR"', {
      env: { JOBMAN_CHECKPOINT_DIR: '~/check points', HOME: '/elsewhere' },
      checkpointDir: '~/check points',
    });
    assertDone(await ground.machines.start(ground.ref, launch));
    await waitForRun(ground, 1, 'exited');
    assert.equal(logOf(ground, 1).toString().trimEnd(), join(ground.home, 'check points'));
  });

  on('a step is applied when its check fails, is proven, and is not done again', async (ground) => {
    const step = stepOf('one', '[ -e "$HOME/made" ]', 'echo making; echo x >>"$HOME/made"');
    assertDone(await ground.machines.runStep(ground.ref, step));
    assert.deepEqual((await observe(ground)).proofs, ['one']);
    assertDone(await ground.machines.runStep(ground.ref, step));
    assertDone(await ground.machines.runStep(ground.ref, { ...step, key: 'two' }));
    assert.equal(readFileSync(join(ground.home, 'made'), 'utf8'), 'x\n');
    assert.equal(ground.stepLog.join(''), 'step-one: making\n');
    assert.deepEqual([...(await observe(ground)).proofs].toSorted(), ['one', 'two']);
  });

  on('what a machine ends on its way down went with it; what ended before by itself did not', async (ground) => {
    const scripts = [
      'kill -TERM $$',
      'kill -HUP $$',
      'kill -KILL $$',
      'trap "exit 143" TERM; kill -TERM $$',
      'kill -SEGV $$',
      'exit 1',
    ];
    for (const [index, script] of scripts.entries()) {
      await start(ground, index + 1, script);
      assert.equal(
        (await waitForRun(ground, index + 1, 'exited')).state,
        'exited',
        'in the same boot each is an end of its own',
      );
    }
    writeFileSync(ground.bootIdFile, 'boot-two\n');
    const { runs } = await observe(ground);
    assert.deepEqual(
      runs.map((run) => (run.state === 'exited' ? run.exitCode : run.state === 'vanished' ? run.detail : run.state)),
      [...Array<string>(4).fill('the machine was restarted'), 139, 1],
    );
  });

  on('a program that lives counts as running even if the boot id differs, and can be stopped', async (ground) => {
    await start(ground, 1, 'exec sleep 600');
    await waitForRun(ground, 1, 'running');
    writeFileSync(ground.bootIdFile, 'boot-two\n');
    assert.equal((await observe(ground)).runs[0]?.state, 'running');
    assertDone(await ground.machines.stop(ground.ref, 1, 'kill', 'TERM'));
    await waitForRun(ground, 1, 'vanished');
  });

  on('after a reboot no proof counts, and the check decides', async (ground) => {
    const made = (name: string): string => join(ground.home, name);
    const lasting = stepOf('installed', '[ -e "$HOME/installed" ]', 'echo x >>"$HOME/installed"');
    const transient = stepOf('mounted', '[ -e "$HOME/mounted" ]', 'echo x >>"$HOME/mounted"; echo x >>"$HOME/mounts"');
    for (const step of [lasting, transient]) assertDone(await ground.machines.runStep(ground.ref, step));
    assert.deepEqual([...(await observe(ground)).proofs].toSorted(), ['installed', 'mounted']);
    rmSync(made('mounted'));
    assertDone(await ground.machines.runStep(ground.ref, transient));
    assert.equal(existsSync(made('mounted')), false, 'the control: in the same boot a proof is believed');
    writeFileSync(ground.bootIdFile, 'boot-two\n');
    assert.deepEqual((await observe(ground)).proofs, []);
    for (const step of [lasting, transient]) assertDone(await ground.machines.runStep(ground.ref, step));
    assert.deepEqual([...(await observe(ground)).proofs].toSorted(), ['installed', 'mounted']);
    assert.equal(readFileSync(made('installed'), 'utf8'), 'x\n', 'what the check finds is not made again');
    assert.equal(readFileSync(made('mounts'), 'utf8'), 'x\nx\n', 'what is gone is');
  });

  on('a proof counts in the boot that it was made in', async (ground) => {
    const step = stepOf('mounted', '[ -e "$HOME/mounted" ]', 'echo x >>"$HOME/applied"; touch "$HOME/mounted"');
    assertDone(await ground.machines.runStep(ground.ref, step));
    writeFileSync(ground.bootIdFile, 'boot-two\n');
    assert.deepEqual((await observe(ground)).proofs, []);
    assertDone(await ground.machines.runStep(ground.ref, step));
    assert.equal(readFileSync(join(ground.home, 'applied'), 'utf8'), 'x\n', 'it still held, and was not made again');
    assert.deepEqual((await observe(ground)).proofs, ['mounted']);
  });

  on('a manual run ignores a proof, and may apply a step that holds', async (ground) => {
    const step = stepOf('one', '[ -e "$HOME/made" ]', 'echo making; echo x >>"$HOME/applied"; touch "$HOME/made"');
    const outputs: string[] = [];
    const runManually = (force: boolean) =>
      ground.machines.runStep(ground.ref, step, {
        force,
        onOutput: (chunk) => void outputs.push(Buffer.from(chunk).toString()),
      });
    const applied = (): string => readFileSync(join(ground.home, 'applied'), 'utf8');
    assertDone(await ground.machines.runStep(ground.ref, step));
    assertDone(await runManually(false));
    assert.equal(applied(), 'x\n', 'its check found that it holds');
    rmSync(join(ground.home, 'made'));
    assertDone(await runManually(false));
    assert.equal(applied(), 'x\nx\n');
    assertDone(await runManually(true));
    assert.equal(applied(), 'x\nx\nx\n');
    assert.equal(outputs.join(''), 'making\nmaking\n');
    assert.deepEqual((await observe(ground)).proofs, ['one']);
    // A step that no longer holds leaves no proof, so that the next attempt runs it.
    rmSync(join(ground.home, 'made'));
    const broken = await ground.machines.runStep(
      ground.ref,
      { ...step, apply: 'exit 3' },
      { force: false, onOutput: () => undefined },
    );
    assert.equal(broken.kind, 'failed');
    assert.deepEqual((await observe(ground)).proofs, []);
  });

  on('a step that fails names the command that failed', async (ground) => {
    const step = stepOf(
      'bad',
      null,
      'set -eu\nname="a b"\nmkdir -p "$HOME/x"\nls "$HOME/x/$name" || { echo "It is not there." >&2; exit 4; }',
    );
    const result = await ground.machines.runStep(ground.ref, step);
    assert.ok(result.kind === 'failed', inspect(result));
    // Only bash reports its commands; without bash the output has to suffice.
    const { message: detail } = result.evidence;
    assert.ok(detail.startsWith('It is not there (exit code 4'), detail);
    if (detail.includes('`')) assert.ok(detail.includes(` of \`ls '${ground.home}/x/a b'\``), detail);
  });

  on('a failed step reports the command, the exit code and the last output, and may be tried again', async (ground) => {
    const step = stepOf('bad', null, 'echo first; echo "no room" >&2; [ -e "$HOME/ok" ] || exit 7');
    const result = await ground.machines.runStep(ground.ref, step);
    assert.ok(result.kind === 'failed', inspect(result));
    // The caller adds the step and the worker.
    assert.match(result.evidence.message, /^no room \(exit code 7( of `.*`)?\)$/);
    assert.equal(result.evidence.exitCode, 7);
    assert.equal(result.evidence.worker, ground.ref.worker);
    assert.equal(result.evidence.raw, 'first\nno room');
    writeFileSync(join(ground.home, 'ok'), '');
    assertDone(await ground.machines.runStep(ground.ref, step));
    assert.deepEqual((await observe(ground)).proofs, ['bad']);
  });

  on('a step gets its files, and those who ask while it runs wait for the same try', async (ground) => {
    const files = [
      {
        kind: 'inline' as const,
        base64: Buffer.from('se\0cret\n').toString('base64'),
        to: '~/.secret/a key',
        mode: 0o600,
      },
    ];
    const step = stepOf('slow', null, 'echo x >>"$HOME/tries"; sleep 1; cat "$HOME/.secret/a key"', { files });
    const first = ground.machines.runStep(ground.ref, step);
    await eventually(() => existsSync(join(ground.home, 'tries')));
    const second = ground.machines.runStep(ground.ref, step);
    assertDone(await first);
    assertDone(await second);
    assert.equal(readFileSync(join(ground.home, 'tries'), 'utf8'), 'x\n');
    assert.equal(statSync(join(ground.home, '.secret/a key')).mode & 0o777, 0o600);
    assert.equal(readFileSync(join(ground.home, '.secret/a key'), 'utf8'), 'se\0cret\n');
  });

  on('what a step leaves running on purpose stays', async (ground) => {
    assertDone(
      await ground.machines.runStep(
        ground.ref,
        stepOf('mount', null, 'setsid sleep 60 >/dev/null 2>&1 & echo $! >"$HOME/mount"'),
      ),
    );
    const pid = await pidIn(ground, 'mount');
    assert.equal(isAlive(pid), true);
    process.kill(pid, 'SIGKILL');
  });
}

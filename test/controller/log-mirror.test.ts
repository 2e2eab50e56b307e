// The log mirror against a connection that breaks at random and a disk that is sometimes full. The simulator does the
// same with whole worlds; this test compares the copy of one long output byte for byte.

import assert from 'node:assert/strict';
import test from 'node:test';
import { createChance } from '../../sim/chance.ts';
import { drawJobs } from '../../sim/jobs.ts';
import { createLogCopies, contentOf, type Disk } from '../../sim/outputs.ts';
import { createTimeline } from '../../sim/timeline.ts';
import type { Backend, LogFiles, MachinePort } from '../../src/app/ports.ts';
import { createLogFollowers, createLogMirror } from '../../src/controller/log-mirror.ts';
import { createClockWatch } from '../../src/controller/schedule.ts';
import { newJob, type Allocation, type Job } from '../../src/core/model/job.ts';
import { minute, second } from '../../src/core/model/time.ts';
import {
  aJob,
  endedAttempt,
  localSpec,
  noon,
  readyAllocation,
  runningAttempt,
  withAttempts,
} from '../support/builders.ts';

const output = { attempt: 1, allocation: 1, worker: 0, file: 'log' } as const;

function jobWithOneAllocation(): Job {
  const spec = drawJobs(createChance(1))[0]?.spec;
  assert.ok(spec !== undefined);
  const { job } = newJob({ id: '000001', installation: 'abcdef', owner: 'owner', spec, at: 0 });
  // Only its id is read here.
  return { ...job, allocations: [{ ordinal: 1 } as Allocation] };
}

/** Sends these bytes in pieces, and breaks the connection at random. */
function unsteadyHost(truth: Uint8Array, seed: number, timeline: ReturnType<typeof createTimeline>): MachinePort {
  const chance = createChance(seed);
  const tail: MachinePort['tail'] = (_ref, { from: begin }, receiver) => {
    let isOff = false;
    const send = async (): Promise<void> => {
      for (let from = begin; from < truth.length;) {
        await timeline.pause(chance.between(0, 50));
        if (isOff) return;
        if (chance.yes(0.1)) return receiver.dropped('the connection broke');
        const to = Math.min(truth.length, from + chance.between(1, 400));
        await receiver.bytes(truth.slice(from, to));
        from = to;
      }
      if (!isOff) receiver.ended();
    };
    void send();
    return () => {
      isOff = true;
    };
  };
  const unused = (): never => {
    throw new Error('only tails are requested here');
  };
  return { tail, observe: unused, runStep: unused, start: unused, stop: unused, disconnect: () => undefined };
}

function mirrorOver(timeline: ReturnType<typeof createTimeline>, logFiles: LogFiles, woken: string[]) {
  return createLogMirror({
    logFiles,
    clock: { now: () => timeline.now, at: (at, call) => timeline.at(at, call) },
    mayAct: () => true,
    wake: (id) => woken.push(id),
    report: () => undefined,
  });
}

test('the copy equals the original, however often the connection breaks or the disk is full', async () => {
  const truth = new TextEncoder().encode(Array.from({ length: 2_000 }, (_, line) => `line ${line}\n`).join(''));
  for (let seed = 1; seed <= 30; seed += 1) {
    const timeline = createTimeline();
    const disk: Disk = { isFull: false };
    const copies = createLogCopies(disk, createChance(seed));
    const job = jobWithOneAllocation();
    const woken: string[] = [];
    const host = unsteadyHost(truth, seed, timeline);
    // A controller dies and another continues: it knows only the length of the copy.
    const first = mirrorOver(timeline, copies, woken);
    first.follow(job, host, output);
    timeline.after(700, () => {
      disk.isFull = true;
    });
    timeline.after(3_000, () => {
      disk.isFull = false;
    });
    await timeline.run(5_000, () => false);
    first.stop();
    const second = mirrorOver(timeline, copies, woken);
    second.follow(job, host, output);
    await timeline.run(3_600_000, () => second.isCopied(job, output));
    const copy = copies.files.get('000001/1/0');
    assert.ok(copy !== undefined && Buffer.from(contentOf(copy)).equals(truth), `seed ${seed}`);
    assert.ok(woken.includes('000001'));
    assert.equal(second.size, 0);
  }
});

test('the times of the copy are stored, and a full disk for them harms nothing', async () => {
  for (const isFull of [false, true]) {
    const timeline = createTimeline();
    const real = createLogCopies({ isFull: false }, createChance(1));
    const stored: number[] = [];
    const copies: LogFiles = {
      ...real,
      async recordArrivals(_job, _output, arrivals) {
        if (isFull) throw new Error('the disk is full');
        stored.push(...arrivals.map(({ length }) => length));
      },
    };
    const job = jobWithOneAllocation();
    const mirror = mirrorOver(timeline, copies, []);
    mirror.follow(job, slowHost(21, timeline), output);
    await timeline.run(3_600_000, () => mirror.isCopied(job, output));
    assert.equal(real.files.get('000001/1/0')?.bytes, 21);
    assert.deepEqual(stored, isFull ? [] : [1, 6, 11, 16, 21]);
  }
});

test('a drain waits for the last byte, but not forever', async () => {
  const timeline = createTimeline();
  const copies = createLogCopies({ isFull: false }, createChance(1));
  const job = jobWithOneAllocation();
  const mirror = mirrorOver(timeline, copies, []);
  const deaf: MachinePort = { ...unsteadyHost(new Uint8Array(0), 1, timeline), tail: () => () => undefined };
  const answers: boolean[] = [];
  void mirror.drain(job, deaf, output, { idle: 5_000, total: 60_000 }).then((answer) => answers.push(answer));
  await timeline.run(60_000, () => answers.length > 0);
  assert.deepEqual(answers, [false]);
  assert.equal(timeline.now, 5_000);
  mirror.stop();
});

/** Sends a byte every second without end. */
function slowHost(bytes: number, timeline: ReturnType<typeof createTimeline>): MachinePort {
  const tail: MachinePort['tail'] = (_ref, { from: begin }, receiver) => {
    let isOff = false;
    const send = async (): Promise<void> => {
      for (let at = begin; at < bytes; at += 1) {
        await timeline.pause(1_000);
        if (isOff) return;
        await receiver.bytes(new Uint8Array([at % 256]));
      }
      receiver.ended();
    };
    void send();
    return () => {
      isOff = true;
    };
  };
  return { ...unsteadyHost(new Uint8Array(0), 1, timeline), tail };
}

test('a drain continues while more output arrives, up to a limit', async () => {
  for (const [bytes, most, isWhole] of [
    [200, 900_000, true],
    [2_000, 900_000, false],
  ] as const) {
    const timeline = createTimeline();
    const copies = createLogCopies({ isFull: false }, createChance(1));
    const job = jobWithOneAllocation();
    const mirror = mirrorOver(timeline, copies, []);
    const answers: boolean[] = [];
    void mirror
      .drain(job, slowHost(bytes, timeline), output, { idle: 5_000, total: most })
      .then((one) => answers.push(one));
    timeline.after(20_000, () => {
      mirror.giveUp(
        job,
        () => true,
        () => false,
      );
    });
    await timeline.run(3_600_000, () => answers.length > 0);
    assert.deepEqual(answers, [isWhole]);
    assert.equal(timeline.now, isWhole ? bytes * 1_000 : most);
    mirror.giveUp(
      job,
      () => true,
      () => false,
    );
    assert.equal(mirror.size, 0);
  }
});

test('a drain of a deleted machine is given up at once', async () => {
  const timeline = createTimeline();
  const copies = createLogCopies({ isFull: false }, createChance(1));
  const job = jobWithOneAllocation();
  const mirror = mirrorOver(timeline, copies, []);
  const answers: boolean[] = [];
  const timeouts = { idle: 5_000, total: 900_000 };
  void mirror.drain(job, slowHost(2_000, timeline), output, timeouts).then((one) => answers.push(one));
  timeline.after(20_000, () => {
    mirror.giveUp(
      job,
      () => true,
      () => true,
    );
  });
  await timeline.run(3_600_000, () => answers.length > 0);
  assert.deepEqual([answers, timeline.now], [[false], 20_000]);
});

test('an ended output is copied after a silence of its worker, however long', () => {
  const ended = endedAttempt('command_failed', { message: 'exit code 1' }, noon);
  const open = { ...runningAttempt, createdAt: noon };
  const jobAt = (unreachableAt: number | null): Job =>
    withAttempts(aJob(localSpec()), [{ ...readyAllocation, unreachableAt }], [{ ...runningAttempt, ...ended }, open]);
  const timeline = createTimeline();
  const mirror = mirrorOver(timeline, createLogCopies({ isFull: false }, createChance(1)), []);
  let now = noon + minute;
  const watch = createClockWatch(now);
  const followers = createLogFollowers({
    mirror,
    clock: { now: () => now, at: () => () => undefined },
    watch,
    lease: { lastPause: undefined },
  });
  const backend = { machines: unsteadyHost(new Uint8Array(), 1, timeline) } as Backend;
  for (; now < noon + 20 * minute; now += 30 * second) {
    watch.tick(now);
    followers.follow(jobAt(noon + minute), backend, []);
  }
  assert.equal(followers.isUnfinished(jobAt(null)), true);
  for (const end = now + 6 * minute; now < end; now += 30 * second) watch.tick(now);
  assert.equal(followers.isUnfinished(jobAt(null)), false);
});

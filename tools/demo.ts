/**
 * `npm run demo`: a training job is placed on a TPU of the built-in cloud, loses it in the middle, comes back on another
 * one from its checkpoint, and ends with the accuracy of a run that nobody disturbed. Unattended; leaves nothing behind.
 *
 * It speaks to jobman as a person would, through bin/jobman, in a home folder of its own.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const root = join(import.meta.dirname, '..');
const home = mkdtempSync(join(tmpdir(), 'jobman-demo-'));

/** How long each part may take before the demo is called stuck. The whole takes about a minute. */
const patienceMs = 180_000;

try {
  process.exitCode = await demo();
} finally {
  await jobman(['controller', 'stop']);
  await jobman(['emulator', 'stop']);
  rmSync(home, { recursive: true, force: true });
}

async function demo(): Promise<number> {
  say('1. Two jobs with one program: one on a TPU of the built-in cloud, one undisturbed on this machine.');
  await expect(['create', join(root, 'configs/quick-start.yaml')]);
  await expect(['create', join(root, 'configs/local.yaml')]);

  say('2. When the first has written checkpoints, the cloud takes its TPU away.');
  await until('the job has trained for a while', async () =>
    /step +[2-9]\d\d/.test((await jobman(['logs', '1', '--worker', '0'])).output),
  );
  await expect(['emulator', 'preempt', '1']);

  say('3. Nobody does anything now. jobman gets another TPU and goes on from the last checkpoint.');
  const verdict = await expect(['wait', '1', '2']);
  await expect(['history', '1', '--timeline']);
  await expect(['why', '1']);

  const [moved, undisturbed] = [await finalLine('1'), await finalLine('2')];
  say(`4. The preempted run ended with    ${moved}`);
  say(`   the undisturbed run ended with  ${undisturbed}`);
  if (verdict !== 0 || moved === undefined || moved !== undisturbed) {
    say('They differ, or one of them failed: that should not be.');
    return 1;
  }
  say('They are equal.');
  return 0;
}

/** The line in which the program says what it has reached. */
async function finalLine(id: string): Promise<string | undefined> {
  const { output } = await jobman(['logs', id, '--worker', '0']);
  return /final .*accuracy.*/.exec(output)?.[0];
}

/** Shows a command as a person would type it, and what it prints. */
async function expect(words: readonly string[]): Promise<number> {
  say(`$ jobman ${words.map((word) => word.replace(`${root}/`, '')).join(' ')}`);
  const { code, output } = await jobman(words);
  process.stdout.write(output);
  return code;
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + patienceMs;
  while (!(await holds())) {
    if (performance.now() > end)
      throw new Error(`the demo is stuck: it waited ${patienceMs / 1000} s for this: ${what}`);
    await sleep(250);
  }
}

function jobman(words: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(join(root, 'bin/jobman'), words, {
      env: { ...process.env, JOBMAN_HOME: home },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/**
 * `npm run demo`: a training job on the TPU emulator loses its TPU, resumes on another one from its checkpoint, and
 * reaches the accuracy of an undisturbed run. Runs unattended through bin/jobman, in a temporary home.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const root = join(import.meta.dirname, '..');
const home = mkdtempSync(join(tmpdir(), 'jobman-demo-'));

/** Limit for each part. The whole demo takes about a minute. */
const stepTimeoutMs = 180_000;

try {
  process.exitCode = await demo();
} finally {
  await jobman(['controller', 'stop']);
  await jobman(['emulator', 'stop']);
  rmSync(home, { recursive: true, force: true });
}

async function demo(): Promise<number> {
  print('1. Two jobs run the same program: one on a TPU of the TPU emulator, one undisturbed on this machine.');
  await showCommand(['create', join(root, 'configs/quick-start.yaml')]);
  await showCommand(['create', join(root, 'configs/local.yaml')]);

  print('2. After the first job has written checkpoints, the emulator preempts its TPU.');
  await waitUntil('the job has trained for a while', async () =>
    /step +[2-9]\d\d/.test((await jobman(['logs', '1', '--worker', '0'])).output),
  );
  await showCommand(['emulator', 'preempt', '1']);

  print('3. No user action: jobman gets another TPU and resumes from the last checkpoint.');
  const verdict = await showCommand(['wait', '1', '2']);
  await showCommand(['history', '1', '--timeline']);
  await showCommand(['why', '1']);

  const [moved, undisturbed] = [await finalLine('1'), await finalLine('2')];
  print(`4. The preempted run ended with    ${moved}`);
  print(`   the undisturbed run ended with  ${undisturbed}`);
  if (verdict !== 0 || moved === undefined || moved !== undisturbed) {
    print('The accuracies differ, or a job failed. This is a bug.');
    return 1;
  }
  print('They are equal.');
  return 0;
}

async function finalLine(id: string): Promise<string | undefined> {
  const { output } = await jobman(['logs', id, '--worker', '0']);
  return /final .*accuracy.*/.exec(output)?.[0];
}

/** Prints the command as a user types it, and its output. */
async function showCommand(args: readonly string[]): Promise<number> {
  print(`$ jobman ${args.map((arg) => arg.replace(`${root}/`, '')).join(' ')}`);
  const { code, output } = await jobman(args);
  process.stdout.write(output);
  return code;
}

async function waitUntil(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + stepTimeoutMs;
  while (!(await isTrue())) {
    if (performance.now() > end)
      throw new Error(`the demo is stuck: it waited ${stepTimeoutMs / 1000} s for this: ${what}`);
    await sleep(250);
  }
}

function jobman(args: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(join(root, 'bin/jobman'), args, {
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

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Runs the texts of setup steps with the real shells of this machine, in a home folder of their own. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { digestOf } from '../../src/catalogue/digest.ts';
import type { SetupStep, StepFile } from '../../src/core/model/spec.ts';
import { openWorld, type Scope, type World } from '../support/world.ts';

export interface ScriptResult {
  readonly code: number | null;
  readonly out: string;
}

export interface Host {
  readonly world: World;
  readonly home: string;
  /** Puts a program on the host's PATH, before all others. Its text is a script of sh. */
  program(name: string, script: string): void;
  write(path: string, content: string | Uint8Array, mode?: number): void;
  run(script: string, more?: Readonly<Record<string, string>>): ScriptResult;
  /** The same without waiting; resolves when it has ended. */
  start(script: string, more?: Readonly<Record<string, string>>): Promise<ScriptResult>;
  /** As a worker does it: the files first, then the check, and the apply when the check fails. */
  step(step: SetupStep, contents?: readonly Uint8Array[]): ScriptResult & { readonly applied: boolean };
}

/** A host without an administrator: `sudo` runs the command unchanged, unless a test replaces it. */
export function openHost(
  scope: Scope,
  { shell = 'bash', patienceMs = 10_000 }: { readonly shell?: string; readonly patienceMs?: number } = {},
): Host {
  const world = openWorld(scope, { patienceMs });
  const home = join(world.folder, 'user');
  const bin = join(world.folder, 'bin');
  mkdirSync(bin, { recursive: true });
  const env = { ...world.env, HOME: home, PATH: `${bin}:${world.env['PATH'] ?? ''}` };

  // Scripts travel as files, so here they are files too.
  const file = join(world.folder, 'run', 'script');

  const host: Host = {
    world,
    home,
    program(name, script) {
      host.write(join(bin, name), `#!/bin/sh\n${script}\n`, 0o755);
    },
    write(path, content, mode = 0o644) {
      const file = path.startsWith('~/') ? join(home, path.slice(2)) : path;
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
      chmodSync(file, mode);
    },
    async start(script, more = {}) {
      host.write(file, script);
      // As on a worker, one stream has the whole output, in its order.
      const process = spawn('sh', ['-c', 'exec "$0" "$1" 2>&1', shell, file], { env: { ...env, ...more }, cwd: home });
      let out = '';
      process.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
      const [code] = (await once(process, 'close')) as [number | null];
      return { code, out };
    },
    run(script, more = {}) {
      host.write(file, script);
      const ran = spawnSync(shell, [file], { env: { ...env, ...more }, cwd: home, encoding: 'utf8', timeout: 60_000 });
      return { code: ran.status, out: `${ran.stdout}${ran.stderr}` };
    },
    step(step, contents = []) {
      for (const file of step.files) {
        host.write(file.to, bytesOf(file, contents), file.mode);
      }
      const checked = step.check === null ? undefined : host.run(step.check);
      if (checked?.code === 0) return { ...checked, applied: false };
      return { ...host.run(step.apply), applied: true };
    },
  };
  host.program('sudo', '[ "$1" != -n ] || shift\nexec "$@"');
  return host;
}

function bytesOf(file: StepFile, contents: readonly Uint8Array[]): Uint8Array {
  if (file.kind === 'inline') return Buffer.from(file.base64, 'base64');
  if (file.kind === 'secret') return Buffer.from(`key ${JSON.stringify(file.secret)}\n`);
  const content = contents.find((one) => digestOf(one) === file.blob);
  if (content === undefined) throw new Error(`no content is ${file.blob}`);
  return content;
}

// Exec login: a program that a kubeconfig names to log in, as cloud providers have them. It prints a credential as JSON.
// The protocol: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

import { spawn } from 'node:child_process';
import { minute, second, type Instant } from '../../core/time.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { KubeContext, KubeExec } from './kubeconfig.ts';

/** What the program gave. `until` is null when it did not say how long it holds. */
export interface ExecCredential {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly until: Instant | null;
}

/** Longer than that no program takes that asks nobody; one that does ask has nobody to ask here. */
const patience = 2 * minute;
/** A credential has a few thousand characters. */
const outputMost = 1024 * 1024;

/** Runs it and reads its answer. Rejects with JobmanError (unreachable) in its own words. */
export async function runExecLogin(
  exec: KubeExec,
  context: KubeContext,
  env: Readonly<Record<string, string | undefined>>,
): Promise<ExecCredential> {
  const { stdout, stderr, failed } = await run(exec, {
    ...env,
    ...Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value])),
    KUBERNETES_EXEC_INFO: JSON.stringify(execInfo(exec, context)),
  });
  const lost = (why: string): JobmanError =>
    new JobmanError(
      `The context ${context.name} logs in with the program ${exec.command}, which ${why}.`,
      exitCode.unreachable,
      [...stderr.trim().split('\n'), ...(exec.installHint ?? '').trim().split('\n')].filter((line) => line !== ''),
    );
  if (failed !== undefined) throw lost(failed);
  let answer: unknown;
  try {
    answer = JSON.parse(stdout);
  } catch {
    throw lost('printed something that is no credential');
  }
  const { status } = (answer ?? {}) as { readonly status?: Readonly<Record<string, unknown>> };
  const text = (key: string): string | undefined => {
    const value = status?.[key];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const [token, cert, key] = [text('token'), text('clientCertificateData'), text('clientKeyData')];
  if (token === undefined && cert === undefined) throw lost('gave neither a token nor a certificate');
  const until = Date.parse(text('expirationTimestamp') ?? '');
  return {
    ...(token === undefined ? {} : { token }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    until: Number.isNaN(until) ? null : until,
  };
}

/** What the program is told. It has no terminal: it may not ask anything. */
function execInfo(exec: KubeExec, { cluster }: KubeContext): object {
  return {
    apiVersion: exec.apiVersion ?? 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    spec: { interactive: false, ...(exec.provideClusterInfo === true ? { cluster } : {}) },
  };
}

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  /** What went wrong, as the end of a sentence; undefined when it ended well. */
  readonly failed: string | undefined;
}

function run({ command, args }: KubeExec, env: Readonly<Record<string, string | undefined>>): Promise<Ran> {
  return new Promise((resolve) => {
    let [stdout, stderr] = ['', ''];
    let failed: string | undefined;
    let child;
    try {
      child = spawn(command, [...(args ?? [])], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    } catch (error) {
      // Node refuses some names and variables before it starts anything.
      const why = error instanceof Error ? error.message : String(error);
      resolve({ stdout, stderr, failed: `cannot be run: ${why}` });
      return;
    }
    const ends = (): void => {
      if (stdout.length + stderr.length <= outputMost) return;
      failed ??= `printed more than ${outputMost / 1024 / 1024} MiB`;
      child.kill('SIGKILL');
    };
    const timer = setTimeout(() => {
      failed = `did not answer within ${patience / second} s`;
      child.kill('SIGKILL');
    }, patience);
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      stdout += part;
      ends();
    });
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      stderr += part;
      ends();
    });
    child.on('error', (error: NodeJS.ErrnoException) => {
      failed ??= error.code === 'ENOENT' ? 'is not there' : `cannot be run: ${error.message}`;
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (code !== 0) failed ??= code === null ? `was ended by ${String(signal)}` : `ended with ${code}`;
      resolve({ stdout, stderr, failed });
    });
  });
}

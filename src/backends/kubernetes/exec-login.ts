// Exec login: a program that a kubeconfig names to log in, as cloud providers have them. It prints a credential as JSON.
// The protocol: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

import { given } from '../../core/given.ts';
import { minute, type Instant } from '../../core/time.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { runLoginProgram } from '../../http/login-program.ts';
import type { Environment } from '../../http/proxy.ts';
import type { KubeContext, KubeExec } from './kubeconfig.ts';

/** The program's answer. `until` is null if it does not say how long the credential is valid. */
export interface ExecCredential {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly until: Instant | null;
}

/** Longer than that no program takes that asks nobody; one that does ask has nobody to ask here. */
const patience = 2 * minute;

/** Runs it and reads its answer. Rejects with JobmanError (unreachable) in its own words. */
export async function runExecLogin(exec: KubeExec, context: KubeContext, env: Environment): Promise<ExecCredential> {
  const { stdout, stderr, failed } = await runLoginProgram([exec.command, ...(exec.args ?? [])], {
    env: {
      ...env,
      ...Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value])),
      KUBERNETES_EXEC_INFO: JSON.stringify(execInfo(exec, context)),
    },
    input: '',
    within: patience,
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
  return { ...given({ token, cert, key }), until: Number.isNaN(until) ? null : until };
}

/** The program's input. It has no terminal, so it may not ask anything. */
function execInfo(exec: KubeExec, { cluster }: KubeContext): object {
  return {
    apiVersion: exec.apiVersion ?? 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    spec: { interactive: false, ...(exec.provideClusterInfo === true ? { cluster } : {}) },
  };
}

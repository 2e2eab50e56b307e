// Library login: identity providers (`auth-provider` of a kubeconfig: oidc, azure, gcp), which the client library knows.
// Loading it takes longer than all else that a short command does, so nothing else comes here.

import { KubeConfig } from '@kubernetes/client-node';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { KubeContext } from './kubeconfig.ts';

/** One for each context, because it holds and renews what the provider gave. */
const configs = new WeakMap<KubeContext, KubeConfig>();

/** The headers that the provider's login makes. Rejects with JobmanError (unreachable) in the provider's words. */
export async function libraryHeaders(context: KubeContext): Promise<Readonly<Record<string, string>>> {
  const { cluster, user, userName, name } = context;
  let config = configs.get(context);
  if (config === undefined) {
    config = new KubeConfig();
    config.loadFromOptions({
      clusters: [
        { name: 'cluster', server: cluster.server, skipTLSVerify: cluster['insecure-skip-tls-verify'] === true },
      ],
      users: [{ name: userName, authProvider: user['auth-provider'] }],
      contexts: [{ name, cluster: 'cluster', user: userName }],
      currentContext: name,
    });
    configs.set(context, config);
  }
  const options: { headers?: Record<string, unknown> } = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    const provider = user['auth-provider']?.name ?? '';
    throw new JobmanError(
      `The context ${name} logs in through ${provider}, which did not work.`,
      exitCode.unreachable,
      [error instanceof Error ? error.message : String(error)],
      { cause: error },
    );
  }
  const given = Object.entries(options.headers ?? {}).map(([header, value]) => [header.toLowerCase(), String(value)]);
  return Object.fromEntries(given) as Readonly<Record<string, string>>;
}

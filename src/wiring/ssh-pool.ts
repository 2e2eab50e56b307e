// SSH pool: the connections of this process to workers, with the keys and the agent of its user.

import type { Services } from '../app/services.ts';
import { createSshPool, type SshPool } from '../remote/ssh.ts';

/** Makes no connection by itself. */
export function openSshPool({ io, home }: Pick<Services, 'io' | 'home'>): SshPool {
  return createSshPool({
    home,
    user: io.user,
    userHome: io.userHome,
    agent: io.env['SSH_AUTH_SOCK'] ?? null,
    sshArgs: [],
  });
}

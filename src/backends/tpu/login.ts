// Logging in on the workers: as whom, with which key, and the lines of metadata that make them accept it.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TpuSpec } from '../../core/spec.ts';
import { ensureOwnKey } from '../../remote/ssh-keys.ts';

export interface LoginOptions {
  /** `$JOBMAN_HOME`, where jobman's own key is, or will be made. */
  readonly home: string;
  /** The user that jobman runs as. */
  readonly user: string;
}

/** The login as a manifest, or the settings of a lab, define it. */
type LoginSpec = Pick<TpuSpec, 'remoteUser' | 'privateKey'>;

/** The user on the workers. */
export function userOf(spec: LoginSpec, { user }: LoginOptions): string {
  return spec.remoteUser ?? user;
}

/**
 * The node's `ssh-keys` metadata: jobman's own key, and the manifest's where its public half lies beside it. Google's guest
 * agent makes the user and its authorized_keys from them. The project's own lines count as well and are not touched.
 * Throws when jobman's own key cannot be made.
 */
export async function sshKeyLines(spec: LoginSpec, options: LoginOptions): Promise<string> {
  const keys = [await ownPublicKey(options.home)];
  if (spec.privateKey !== null) keys.push(...(await publicHalf(spec.privateKey)));
  // `USER:TYPE KEY COMMENT`, a line each.
  return keys.map((key) => `${userOf(spec, options)}:${key}`).join('\n');
}

/** In a home that a group shares the key is its first login's; the public half is for all. */
async function ownPublicKey(home: string): Promise<string> {
  try {
    return (await ensureOwnKey(home)).publicKey;
  } catch (error) {
    const [shared] = await publicHalf(join(home, 'ssh', 'id_ed25519'));
    if (shared === undefined) throw error;
    return shared;
  }
}

/** The key of that file's `.pub`, if there is one: the project's metadata may hold it already. */
async function publicHalf(privateKey: string): Promise<readonly string[]> {
  try {
    const line = (await readFile(`${privateKey}.pub`, 'utf8')).trim();
    return line === '' || line.includes('\n') ? [] : [line];
  } catch {
    return [];
  }
}

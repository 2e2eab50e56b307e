// Host keys: which key a worker showed when it was first reached. One file per worker, in OpenSSH's own format, so that
// the system's ssh can be pointed at it (UserKnownHostsFile with HostKeyAlias), and so that pinning and forgetting need
// no lock: a pin is one atomic creation, forgetting is one removal.

import { createHash, randomBytes } from 'node:crypto';
import { link, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/make-folder.ts';

export interface HostKeys {
  /** The pinned key of that name as `type base64`; undefined when none is. Throws when the file cannot be read. */
  pinned(name: string): Promise<string | undefined>;
  /** Pins a key unless one is pinned; answers the key that is pinned now. Safe to repeat, also by two at once. */
  pin(name: string, key: string): Promise<string>;
  /** Forgets every pin whose name begins so. */
  forget(prefix: string): Promise<void>;
  /** The known_hosts file of that name. */
  file(name: string): string;
}

/** Pins below `$JOBMAN_HOME/ssh/known_hosts/`. */
export function createHostKeys(home: string): HostKeys {
  const folder = join(home, 'ssh', 'known_hosts');
  const file = (name: string): string => {
    if (!/^[A-Za-z0-9_.-]+$/u.test(name)) throw new Error(`${name} cannot name a pinned host key`);
    return join(folder, name);
  };
  async function pinned(name: string): Promise<string | undefined> {
    let text: string;
    try {
      text = await readFile(file(name), 'utf8');
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
    const [, type, base64] = text.trim().split(' ');
    return `${type} ${base64}`;
  }
  return {
    pinned,
    async pin(name, key) {
      const target = file(name);
      makeFolder(folder);
      await createOnce(target, `${name} ${key}\n`, fileModeIn(folder));
      return (await pinned(name)) ?? key;
    },
    async forget(prefix) {
      let names: readonly string[];
      try {
        names = await readdir(folder);
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return;
        throw error;
      }
      for (const name of names) {
        if (name.startsWith(prefix)) await rm(join(folder, name), { force: true });
      }
    },
    file,
  };
}

/** Makes a file, which appears whole, unless it is there: the first of several wins. */
export async function createOnce(file: string, text: string, mode: number): Promise<void> {
  const fresh = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString('hex')}`);
  await writeFile(fresh, text, { mode });
  try {
    await link(fresh, file);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(fresh, { force: true });
  }
}

/** A key as SSH sends it (RFC 4253, 6.6: its type with a length in front, then the rest) as `type base64`. */
export function keyFromWire(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  const type = buffer.subarray(4, 4 + buffer.readUInt32BE(0)).toString('ascii');
  return `${type} ${buffer.toString('base64')}`;
}

/** A key's fingerprint as ssh-keygen shows it. */
export function fingerprint(key: string): string {
  const [type = '', base64 = ''] = key.split(' ');
  const hash = createHash('sha256').update(Buffer.from(base64, 'base64')).digest('base64').replace(/=+$/u, '');
  return `${type} SHA256:${hash}`;
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

// SSH keys: jobman's own login key, the user's keys that can be used in process, and the pinned host keys. Each worker
// has one file of host keys in OpenSSH's own format, so that the system's ssh can use it (UserKnownHostsFile with
// HostKeyAlias), and pinning and forgetting need no lock.

import { createHash, randomBytes } from 'node:crypto';
import { chmod, link, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type * as Ssh2Module from 'ssh2';
import type { ParsedKey } from 'ssh2';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import { fileModeIn, isGroupShared, makeFolder } from '../files/files.ts';

export interface OwnKey {
  readonly file: string;
  /** The public half, one line without its end: `ssh-ed25519 AAAA… jobman`. */
  readonly publicKey: string;
}

/** The private key of jobman. */
export function ownKeyFile(home: string): string {
  return join(home, 'ssh', 'id_ed25519');
}

/**
 * Reads or creates the `ownKeyFile`. Safe to run concurrently: the first process wins. Throws when the
 * folder cannot be written, and a JobmanError when the key belongs to another login.
 */
export async function ensureOwnKey(home: string): Promise<OwnKey> {
  const file = ownKeyFile(home);
  const folder = dirname(file);
  const ssh2 = await loadSsh2();
  let text: string | undefined = await readIfExists(file);
  if (text === undefined) {
    makeFolder(folder);
    const generate = () => ssh2.utils.generateKeyPairSync('ed25519', { comment: keyComment });
    let pair = generate();
    // ssh2 1.17.0 writes about one malformed key in 400.
    while (ssh2.utils.parseKey(pair.private) instanceof Error) pair = generate();
    await createOnce(file, pair.private, 0o600);
    text = await readFile(file, 'utf8');
  }
  const publicKey = publicKeyOf(text, file, ssh2);
  // The public file is a copy for users and for `ssh-copy-id`; the private file is authoritative.
  if ((await readIfExists(`${file}.pub`)) !== `${publicKey}\n`) {
    const fresh = `${file}.pub.${randomBytes(6).toString('hex')}`;
    await writeFile(fresh, `${publicKey}\n`, { mode: isGroupShared(folder) ? 0o660 : 0o644 });
    await rename(fresh, `${file}.pub`);
    await chmod(file, 0o600);
  }
  return { file, publicKey };
}

/** `needsAgent`: `ssh-add` makes it usable. */
export type LoadedKey = { readonly key: ParsedKey } | { readonly problem: string; readonly needsAgent?: true };

/** Undefined when there is no file. `parse` is ssh2's. */
export async function loadKey(
  file: string,
  parse: (text: Buffer) => ParsedKey | Error,
): Promise<LoadedKey | undefined> {
  let text: Buffer;
  try {
    text = await readFile(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    return { problem: `the key file ${file} cannot be read: ${messageOf(error)}` };
  }
  // The file of a security key holds only a handle; its type is in the public part, in base64 with a length in front.
  if (Buffer.from(text.toString('latin1').replaceAll(/-----.*-----|\s/gu, ''), 'base64').includes('sk-')) {
    const problem = `the key ${file} is on a security key, which requires an SSH agent: add it with ssh-add`;
    return { problem, needsAgent: true };
  }
  const key = parse(text);
  if (key instanceof Error) {
    return /encrypted/iu.test(key.message)
      ? {
          problem: `the key ${file} is protected by a passphrase: add it to your agent with ssh-add ${file}; a controller finds an agent that is newer than itself after jobman controller restart`,
          needsAgent: true,
        }
      : { problem: `the key ${file} cannot be used: ${key.message}` };
  }
  if (!key.isPrivateKey()) return { problem: `the file ${file} is not a private key` };
  return { key };
}

async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    // In a home that a group shares, the key is private to its owner. The group reaches its machines with a key that
    // all members can read.
    if (errorCode(error) === 'EACCES') {
      throw new JobmanError(
        `The login key of jobman, ${file}, belongs to another user of this machine.`,
        exitCode.failed,
        ['Run the controller as that user, or set a key that the group can read: `lab.privateKey` in the settings.'],
      );
    }
    throw error;
  }
}

const keyComment = 'jobman';

export type Ssh2 = typeof Ssh2Module;

/**
 * A connection keeps some small buffers for as long as it lives, and each keeps the whole block that Node cut it from. With
 * the blocks of Node 26, 64 KiB, a thousand connections took 74 MB.
 */
const bufferBlock = 1024;

/** Loads the SSH library on demand: most commands do not connect. */
export async function loadSsh2(): Promise<Ssh2> {
  Buffer.poolSize = bufferBlock;
  const module = await import('ssh2');
  return 'default' in module ? (module.default as Ssh2) : module;
}

function publicKeyOf(text: string, file: string, { utils }: Ssh2): string {
  const key = utils.parseKey(text);
  if (key instanceof Error || !key.isPrivateKey()) {
    throw new Error(`${file} is not a key in OpenSSH format; move it away, and jobman creates a new one`);
  }
  return publicLine(key);
}

function publicLine(key: ParsedKey): string {
  return `${key.type} ${key.getPublicSSH().toString('base64')} ${keyComment}`;
}

/** The public half of a private key; null for one that only an SSH agent can use, or that is none. */
export async function publicKeyIn(text: Buffer): Promise<string | null> {
  const key = (await loadSsh2()).utils.parseKey(text);
  return key instanceof Error || !key.isPrivateKey() ? null : publicLine(key);
}

export type HostKeys = ReturnType<typeof createHostKeys>;

/** Pins are files below `$JOBMAN_HOME/ssh/known_hosts/`. */
export function createHostKeys(home: string) {
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
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    const [, type, base64] = text.trim().split(' ');
    return `${type} ${base64}`;
  }
  return {
    pinned,
    /** Pins a key unless one is pinned; returns the pinned key. Safe to repeat, also by two processes at once. */
    async pin(name: string, key: string): Promise<string> {
      const target = file(name);
      makeFolder(folder);
      await createOnce(target, `${name} ${key}\n`, fileModeIn(folder));
      return (await pinned(name)) ?? key;
    },
    async forget(prefix: string): Promise<void> {
      let names: readonly string[];
      try {
        names = await readdir(folder);
      } catch (error) {
        if (errorCode(error) === 'ENOENT') return;
        throw error;
      }
      for (const name of names) {
        if (name.startsWith(prefix)) await rm(join(folder, name), { force: true });
      }
    },
    file,
  };
}

async function createOnce(file: string, text: string, mode: number): Promise<void> {
  const fresh = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString('hex')}`);
  await writeFile(fresh, text, { mode });
  try {
    await link(fresh, file);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  } finally {
    await rm(fresh, { force: true });
  }
}

/** From the wire format (RFC 4253, 6.6: the type with a length in front, then the rest) to `type base64`. */
export function keyFromWire(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  const type = buffer.subarray(4, 4 + buffer.readUInt32BE(0)).toString('ascii');
  return `${type} ${buffer.toString('base64')}`;
}

export function fingerprint(key: string): string {
  const [type = '', base64 = ''] = key.split(' ');
  const hash = createHash('sha256').update(Buffer.from(base64, 'base64')).digest('base64').replace(/=+$/u, '');
  return `${type} SHA256:${hash}`;
}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

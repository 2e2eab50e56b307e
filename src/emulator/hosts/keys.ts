import { generateKeyPairSync } from 'node:crypto';

export interface HostKey {
  /** PEM in the OpenSSH or PKCS#8 format. */
  readonly privateKey: string;
  /** The base64 part of `ssh-ed25519 AAAA…`. */
  readonly publicBlob: string;
}

/** Creates an ed25519 key. The OpenSSH container is written here because Node cannot export it. */
export function newHostKey(): HostKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const point = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  const seed = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');
  const publicBlob = Buffer.concat([sshString('ssh-ed25519'), sshString(point)]);
  // PROTOCOL.key of OpenSSH: two equal check values, the key, a comment, and 1, 2, 3 … up to the block size of eight.
  const check = Buffer.from([7, 7, 7, 7]);
  const body = Buffer.concat([check, check, publicBlob, sshString(Buffer.concat([seed, point])), sshString('')]);
  const padding = Buffer.from(Array.from({ length: (8 - (body.length % 8)) % 8 }, (_, index) => index + 1));
  const container = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    sshString('none'),
    sshString('none'),
    sshString(''),
    Buffer.from([0, 0, 0, 1]),
    sshString(publicBlob),
    sshString(Buffer.concat([body, padding])),
  ]);
  const lines = container.toString('base64').replace(/.{70}/g, '$&\n');
  return {
    privateKey: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
    publicBlob: publicBlob.toString('base64'),
  };
}

function sshString(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** A line of `ssh-keys` metadata: `USER:TYPE KEY COMMENT`. */
export interface AuthorizedKey {
  readonly user: string;
  readonly type: string;
  readonly blob: string;
}

/** Skips lines without this form, as Google's guest agent does. */
export function authorizedKeys(metadata: string | undefined): AuthorizedKey[] {
  return (metadata ?? '').split('\n').flatMap((line) => {
    const match = /^\s*([^:\s]+):(\S+)\s+([A-Za-z0-9+/=]+)/.exec(line);
    const [, user, type, blob] = match ?? [];
    return user !== undefined && type !== undefined && blob !== undefined ? [{ user, type, blob }] : [];
  });
}

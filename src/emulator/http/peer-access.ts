/**
 * Google's clients send no credentials to a local server, so another user of the machine could add a key to a node and
 * run commands as the owner of the emulator. The kernel knows the owner of each socket: only our own user and root are
 * served.
 */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';

export type PeerAccess = 'allowed' | 'denied' | 'unknown';

const established = '01';

/** Reads the kernel's tables (Linux). `unknown` must be admitted: the tables of a sandbox may be incomplete. */
export function checkPeer(socket: Socket, uid: number): PeerAccess {
  const { remotePort, localPort } = socket;
  if (remotePort === undefined || localPort === undefined) return 'denied';
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    let text: string;
    try {
      text = readFileSync(table, 'latin1');
    } catch {
      continue;
    }
    const owner = socketOwner(text, remotePort, localPort);
    if (owner === undefined) continue;
    if (owner.uid === uid) return 'allowed';
    // The kernel shows a socket that its process has closed as root's. A real root peer is still connected.
    return owner.uid === 0 && owner.state === established ? 'allowed' : 'denied';
  }
  return 'unknown';
}

/** The row with the local port `port` and the remote port `peerPort`, both on the loopback network. */
export function socketOwner(table: string, port: number, peerPort: number): { uid: number; state: string } | undefined {
  const hex = (number: number): string => number.toString(16).toUpperCase().padStart(4, '0');
  const row = table.split('\n').find((line) => {
    const [, local = '', remote = ''] = line.trim().split(/\s+/);
    return (
      local.endsWith(`:${hex(port)}`) && remote.endsWith(`:${hex(peerPort)}`) && isLoopback(local) && isLoopback(remote)
    );
  });
  if (row === undefined) return undefined;
  const fields = row.trim().split(/\s+/);
  return { uid: Number(fields[7]), state: fields[3] ?? '' };
}

/** Addresses have the machine's byte order: 127.0.0.1 is 0100007F on a little-endian machine. */
function isLoopback(address: string): boolean {
  const digits = address.slice(0, address.indexOf(':')).slice(-8);
  return digits.endsWith('7F') || digits.startsWith('7F');
}

// The sender of a request: its address, and whether it used TLS. Only headers from a trusted proxy are used.

import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';

export interface Sender {
  /** The address of the client's machine, as far as trusted proxies report it. */
  readonly address: string;
  readonly isSecure: boolean;
}

/**
 * `trustedProxies`: addresses and networks (`10.0.0.0/8`). If there are any, only they may send requests, and only requests
 * that they received over TLS. Throws JobmanError for any other request.
 */
export function createSenderReader(trustedProxies: readonly string[]): (incoming: IncomingMessage) => Sender {
  const trusted = new BlockList();
  for (const network of trustedProxies) {
    const [address = '', prefix] = network.split('/');
    const family = familyOf(address);
    if (prefix === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(prefix), family);
  }
  const isTrusted = (address: string): boolean => trusted.check(address, familyOf(address));

  return ({ socket, headers }) => {
    const peer = withoutMapping(socket.remoteAddress ?? '');
    if (trustedProxies.length === 0) return { address: peer, isSecure: (socket as TLSSocket).encrypted };
    if (!isTrusted(peer)) throw forbidden(`This server accepts requests only from its proxy, and not from ${peer}.`);
    // A client can send entries before those that the proxies append, so only the last ones can be trusted.
    const scheme = entriesOf(headers['x-forwarded-proto']).at(-1);
    if (scheme?.toLowerCase() !== 'https')
      throw forbidden(
        scheme === undefined
          ? 'The proxy does not report in X-Forwarded-Proto whether the request was encrypted.'
          : 'The request reached the proxy without TLS, so its token was sent in clear text. Use https.',
      );
    const entries = entriesOf(headers['x-forwarded-for']).map(addressOf);
    let address = peer;
    for (const entry of entries.toReversed()) {
      if (isIP(entry) === 0)
        throw usageError('The header X-Forwarded-For of the proxy has an entry that is not an address.');
      address = entry;
      if (!isTrusted(entry)) break;
    }
    return { address, isSecure: true };
  };
}

function entriesOf(header: string | string[] | undefined): readonly string[] {
  // Node joins repeated headers with commas.
  return String(header ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/** Some proxies add a port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function addressOf(entry: string): string {
  const [, address = entry] = /^\[([\da-f:.]+)\](?::\d+)?$/i.exec(entry) ?? /^(\d+(?:\.\d+){3}):\d+$/.exec(entry) ?? [];
  return withoutMapping(address);
}

/** An IPv4 address of a socket for both families: `::ffff:192.0.2.1`. */
function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+(?:\.\d+){3}$)/i, '');
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}

function forbidden(message: string): JobmanError {
  return new JobmanError(message, exitCode.conflict, [], { errorCode: 'forbidden' });
}

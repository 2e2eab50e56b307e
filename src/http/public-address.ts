// Public addresses: a lookup of names that refuses addresses inside a network, which an outsider's DNS record may name
// to reach a service of this machine or of its neighbours.

import { lookup as resolveName, type LookupAddress } from 'node:dns';
import { BlockList, type LookupFunction } from 'node:net';

/** Not reachable from the public internet, by IANA's special-purpose registries (RFC 6890). */
const privateNetworks: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
];

const privateAddresses = new BlockList();
for (const [network, prefix] of privateNetworks) {
  privateAddresses.addSubnet(network, prefix, network.includes(':') ? 'ipv6' : 'ipv4');
  // NAT64 (RFC 6052) reaches an IPv4 address under this prefix.
  if (!network.includes(':')) privateAddresses.addSubnet(`64:ff9b::${network}`, 96 + prefix, 'ipv6');
}

/** True for a private, loopback or link-local address; also for one of IPv4 written as IPv6. */
export function isPrivateAddress(address: string): boolean {
  return privateAddresses.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
}

/** For connections to `hostname`. It fails if any address of it is private; other names (a proxy's) are not checked. */
export function publicLookup(hostname: string, resolve: typeof resolveName = resolveName): LookupFunction {
  return (name, options, callback) => {
    resolve(name, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      const found =
        error === null && name === hostname ? addresses.find(({ address }) => isPrivateAddress(address)) : undefined;
      if (found !== undefined) {
        callback(new Error(`${name} resolves to the private address ${found.address}`), []);
      } else if (error !== null || options.all === true) callback(error, addresses);
      else callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
    });
  };
}

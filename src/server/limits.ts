// Limits of one address, one token, one user, and of all clients together.

import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { exitCode, JobmanError } from '../app/errors.ts';
import { minute, second, type Duration } from '../core/model/time.ts';

export interface ServerLimits {
  readonly headerBytes: number;
  /** The server disconnects a client that takes longer to complete its TLS handshake, its headers or the first message of a WebSocket. */
  readonly headersTimeout: Duration;
  /** The same for a complete request. */
  readonly requestTimeout: Duration;
  /** Longer than clients keep idle connections, so that no client sends a request over a closed connection. */
  readonly keepAliveTimeout: Duration;
  readonly connections: number;
  /** Has no effect with trusted proxies, because all their connections have one address. */
  readonly connectionsOfAddress: number;
  /** Average of one token; 0: no limit. The limit of an address is ten times as high. */
  readonly requestsPerSecond: number;
  readonly wrongTokensPerMinute: number;
  /** Login requests of one address, each of which sends requests to the identity provider. */
  readonly loginStepsPerMinute: number;
  readonly streams: number;
  readonly streamsOfUser: number;
  /** The bodies of all requests in progress. */
  readonly bodyBytes: number;
}

export const defaultLimits: ServerLimits = {
  headerBytes: 16 * 1024,
  headersTimeout: 20 * second,
  requestTimeout: 5 * minute,
  keepAliveTimeout: 75 * second,
  connections: 4096,
  connectionsOfAddress: 1024,
  requestsPerSecond: 100,
  wrongTokensPerMinute: 20,
  loginStepsPerMinute: 120,
  streams: 1024,
  streamsOfUser: 256,
  bodyBytes: 512 * 1024 * 1024,
};

/** The server refuses a request that it may accept later. */
export class Overload extends JobmanError {
  /** 429: a limit of this client; 503: a limit of all clients together. */
  readonly status: 429 | 503;

  constructor(message: string, status: 429 | 503, retryAfter: Duration) {
    super(message, exitCode.unreachable, [], { retryAfter: Math.max(1, Math.ceil(retryAfter / second)) });
    this.name = 'Overload';
    this.status = status;
  }
}

/** `now` never goes back. */
export function createLimits(limits: ServerLimits, now: () => Duration) {
  const { requestsPerSecond: rate, wrongTokensPerMinute, loginStepsPerMinute, bodyBytes } = limits;
  const addresses = createBuckets({ perSecond: 10 * rate, size: 100 * rate }, now);
  const tokens = createBuckets({ perSecond: rate, size: 10 * rate }, now);
  const wrongTokens = createBuckets({ perSecond: wrongTokensPerMinute / 60, size: wrongTokensPerMinute }, now);
  const loginSteps = createBuckets({ perSecond: loginStepsPerMinute / 60, size: loginStepsPerMinute }, now);
  const streams = createCounter(limits.streams);
  const streamsOfUser = new Map<string, number>();
  const bodies = createCounter(bodyBytes);

  function take(buckets: Buckets, key: string, what: string): void {
    const wait = rate === 0 ? 0 : buckets.take(key);
    if (wait > 0)
      throw new Overload(`${what} has sent too many requests. Try again in ${formatWait(wait)}.`, 429, wait);
  }

  return {
    /** Throws Overload. */
    admitAddress(address: string): void {
      take(addresses, networkOf(address), `The address ${address}`);
    },

    /** Throws Overload. */
    admitLoginStep(address: string): void {
      const wait = loginSteps.take(networkOf(address));
      if (wait > 0)
        throw new Overload(
          `The address ${address} has sent too many requests to log in. Try again in ${formatWait(wait)}.`,
          429,
          wait,
        );
    },

    /**
     * The actor of the token, or null. A token that is not known to be valid uses one of the few tries of its address, and
     * returns it if it is valid. So no program can guess tokens, and tokens in use still work. Throws Overload.
     */
    async authenticate<T>(
      token: string,
      address: string,
      find: (token: string) => Promise<T | null>,
    ): Promise<T | null> {
      const [key, network] = [createHash('sha256').update(token).digest('base64'), networkOf(address)];
      const isKnown = tokens.has(key);
      if (isKnown) take(tokens, key, 'This token');
      else {
        const wait = wrongTokens.take(network);
        if (wait > 0)
          throw new Overload(
            `The address ${address} has sent too many invalid tokens. Try again in ${formatWait(wait)}.`,
            429,
            wait,
          );
      }
      const found = await find(token);
      if (found === null) tokens.forget(key);
      else if (!isKnown) {
        wrongTokens.giveBack(network);
        tokens.take(key);
      }
      return found;
    },

    /** Counts a stream until the returned function is called. Throws Overload. */
    openStream(user: string): () => void {
      const own = streamsOfUser.get(user) ?? 0;
      if (own >= limits.streamsOfUser)
        throw new Overload(
          `${user} has ${own} open streams on this server, which is the limit for a user.`,
          429,
          second,
        );
      if (!streams.add(1)) throw new Overload('The server has reached its limit of open streams.', 503, second);
      streamsOfUser.set(user, own + 1);
      return once(() => {
        streams.add(-1);
        const left = (streamsOfUser.get(user) ?? 1) - 1;
        if (left === 0) streamsOfUser.delete(user);
        else streamsOfUser.set(user, left);
      });
    },

    /** Counts the memory of one request's body. `grow` throws Overload if all bodies together exceed the limit. */
    holdBody() {
      let held = 0;
      return {
        grow: (bytes: number): void => {
          if (!bodies.add(bytes))
            throw new Overload('The bodies of all requests have reached the limit of the server.', 503, second);
          held += bytes;
        },
        release: (): void => {
          bodies.add(-held);
          held = 0;
        },
      };
    },
  };
}

/** Counts the connections of each address. `open` returns false if the address exceeds the maximum. */
export function createConnectionCounter(maximum: number) {
  const counts = new Map<string, number>();
  return {
    open(address: string): boolean {
      const count = (counts.get(networkOf(address)) ?? 0) + 1;
      if (count > maximum) return false;
      counts.set(networkOf(address), count);
      return true;
    },
    close(address: string): void {
      const left = (counts.get(networkOf(address)) ?? 1) - 1;
      if (left === 0) counts.delete(networkOf(address));
      else counts.set(networkOf(address), left);
    },
  };
}

/** The /64 network of an IPv6 address, because one client may use all addresses of such a network. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const [first, last] = [head, tail ?? ''].map((part) => part.split(':').filter((group) => group !== ''));
  const groups = [...(first ?? []), ...Array.from({ length: 8 }, () => '0'), ...(last ?? [])];
  return groups.slice(0, 4).join(':');
}

function formatWait(wait: Duration): string {
  return `${Math.max(1, Math.ceil(wait / second))} s`;
}

function once(call: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) call();
    isDone = true;
  };
}

function createCounter(maximum: number) {
  let count = 0;
  return {
    /** Returns false, without a change, if the count would exceed the maximum. */
    add(more: number): boolean {
      if (more > 0 && count + more > maximum) return false;
      count += more;
      return true;
    },
  };
}

// ------------------------------------------------------------------------------------------ rates

type Buckets = ReturnType<typeof createBuckets>;

/** Clients with many addresses must not fill the memory. */
const maxBuckets = 20_000;

/** One token bucket for each key: `size` at once, then `perSecond`. */
function createBuckets(
  { perSecond, size }: { readonly perSecond: number; readonly size: number },
  now: () => Duration,
) {
  // In the order of their last use.
  const buckets = new Map<string, { left: number; at: Duration }>();
  return {
    has: (key: string): boolean => buckets.has(key),
    /** Takes one. Returns 0, or the time until one is available. */
    take(key: string): Duration {
      const at = now();
      const found = buckets.get(key) ?? { left: size, at };
      const left = Math.min(size, found.left + ((at - found.at) / second) * perSecond);
      buckets.delete(key);
      buckets.set(key, { left: left >= 1 ? left - 1 : left, at });
      const [oldest] = buckets.keys();
      if (buckets.size > maxBuckets && oldest !== undefined) buckets.delete(oldest);
      return left >= 1 ? 0 : ((1 - left) / perSecond) * second;
    },
    giveBack(key: string): void {
      const found = buckets.get(key);
      if (found !== undefined) found.left += 1;
    },
    forget: (key: string): void => void buckets.delete(key),
  };
}

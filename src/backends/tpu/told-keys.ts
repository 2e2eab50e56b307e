// Told keys: the host keys of workers that the cloud publishes as guest attributes.

import { setTimeout as pause } from 'node:timers/promises';
import { second, type Duration, type Instant } from '../../core/time.ts';
import type { createHostKeys } from '../../remote/host-keys.ts';
import type { GuestAttributes } from './api.ts';
import type { DoorsOptions, Machines } from './doors.ts';

/** Host keys that the cloud did not tell are asked for again, no sooner than this. */
const askAgainAfter: Duration = 30 * second;
/** If the answer takes longer than this, the keys are unknown this time. */
const answerWithin: Duration = 3 * second;

/** The keys of which a worker must show one. */
export interface ToldKeys {
  /** None when it is pinned, and none when nobody could tell: then the first is pinned. */
  hostKeysOf(machines: Machines, worker: number, pin: string): Promise<readonly string[]>;
  /** The machines with those pins are gone. */
  forget(pinPrefix: string): void;
}

/** Asks nobody yet. */
export function createToldKeys({
  apiFor,
  now,
  pins,
}: Pick<DoorsOptions, 'apiFor' | 'now'> & { readonly pins: ReturnType<typeof createHostKeys> }): ToldKeys {
  /** Of each TPU, what its workers said about themselves, and when they were asked. */
  const asked = new Map<string, { readonly at: Instant; readonly attributes: Promise<readonly GuestAttributes[]> }>();
  /** Of each worker, the keys that it was found to have. The same from then on: equal targets share a connection. */
  const found = new Map<string, readonly string[]>();

  function attributesOf({ pinPrefix, place, nodeIds }: Machines): Promise<readonly GuestAttributes[]> {
    const before = asked.get(pinPrefix);
    if (before !== undefined && now() - before.at < askAgainAfter) return before.attributes;
    const api = apiFor(place.project);
    const answered = Promise.all(nodeIds.map((id) => api.getGuestAttributes(place, id))).then((answers) =>
      // If one slice does not answer, every later worker would get the keys of another.
      answers.every((answer) => answer.ok) ? answers.flatMap((answer) => answer.value) : [],
    );
    // A worker that does not answer has to be noticed within ten seconds, and the cloud may not answer at all.
    const late = pause(answerWithin, [], { ref: false });
    const attributes = Promise.race([answered, late]);
    asked.set(pinPrefix, { at: now(), attributes });
    return attributes;
  }

  return {
    async hostKeysOf(machines, worker, pin) {
      const before = found.get(pin);
      if (before !== undefined) return before;
      const isPinned = (await pins.pinned(pin)) !== undefined;
      const keys = isPinned ? [] : hostKeysIn((await attributesOf(machines))[worker]);
      if (isPinned || keys.length > 0) found.set(pin, keys);
      return keys;
    },
    forget(pinPrefix) {
      asked.delete(pinPrefix);
      for (const pin of found.keys()) if (pin.startsWith(pinPrefix)) found.delete(pin);
    },
  };
}

/** The types that both sshd and our client know, the cheapest first; the guest agent publishes each under its name. */
const hostKeyTypes = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'];

function hostKeysIn(attributes: GuestAttributes | undefined): readonly string[] {
  const items = attributes?.queryValue?.items ?? [];
  return hostKeyTypes.flatMap((type) => {
    const value = items.find((item) => item.namespace === 'hostkeys' && item.key === type)?.value?.trim() ?? '';
    return /^[A-Za-z0-9+/]+=*$/.test(value) ? [`${type} ${value}`] : [];
  });
}

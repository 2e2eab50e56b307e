// Output: every text that any command prints goes through here. Names, messages and answers come from clouds, clusters, kubeconfigs,
// manifests and other people, so the only control sequences that pass are the styles of the program itself.
//
// A string is text and is made harmless. Bytes are written unchanged: raw output of a program on a worker, log lines that were
// made harmless one by one, and movements of the cursor.

import type { Io, Stream } from '../app/services.ts';
import { harmless } from './render/inert.ts';
import { ownStyles, stylesOff } from './screen.ts';

type LeavingSignal = Parameters<Parameters<Io['onSignal']>[0]>[0];

/**
 * The same services, whose outputs neutralise text. Streams are opened when they are first used, as before. `onLeave` is called
 * with each signal that a command handles.
 */
export function withHarmlessOutput<T extends { readonly io: Io }>(
  services: T,
  onLeave: (signal: LeavingSignal) => void = () => undefined,
): T {
  const { io } = services;
  let stdout: Stream | undefined;
  let stderr: Stream | undefined;
  return derived(services, {
    io: {
      value: derived(io, {
        stdout: { get: () => (stdout ??= harmlessStream(io.stdout)) },
        stderr: { get: () => (stderr ??= harmlessStream(io.stderr)) },
        onSignal: {
          value: (call: (signal: LeavingSignal) => void) =>
            io.onSignal((signal) => {
              onLeave(signal);
              call(signal);
            }),
        },
      }),
    },
  });
}

/** A text as the outputs print it. */
export function harmlessText(text: string): string {
  return harmless(text, ownStyles, stylesOff);
}

/** For an output: exactly this text, with whatever control characters it has. */
export function exactly(text: string): Uint8Array {
  return Buffer.from(text);
}

function harmlessStream(stream: Stream): Stream {
  return derived(stream, {
    write: { value: (text: string | Uint8Array) => stream.write(typeof text === 'string' ? harmlessText(text) : text) },
  });
}

/** An object that has all of the other's properties and these instead of some; getters of the other stay unread. */
function derived<T extends object>(from: T, properties: PropertyDescriptorMap): T {
  const made: unknown = Object.create(from, properties);
  // The prototype has every property of T.
  return made as T;
}

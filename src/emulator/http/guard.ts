// The users who may ask: this one and root, from this machine, and no page of a browser.

import type { Socket } from 'node:net';
import type { Hono } from 'hono';
import { type Neighbour, neighbourOf } from './neighbours.ts';
import type { Bindings } from './replies.ts';

/** Refuses everybody but the user of that number and root. */
export function addGuards(app: Hono<Bindings>, uid: number): void {
  // A page of another site in the user's browser must not preempt nodes or add keys, and neither must a page that another user
  // serves on this machine: only the emulator's own origin is accepted,
  // and so are host names that only lead here by a trick of DNS.
  app.use(async (context, next) => {
    const origin = context.req.header('origin');
    const host = context.req.header('host') ?? '';
    if (!isLoopback(host) || (origin !== undefined && origin !== `http://${host}`)) {
      return context.json({ message: 'The emulator answers this machine only.' }, 403);
    }
    return next();
  });

  const neighbours = new WeakMap<Socket, Neighbour>();
  app.use(async (context, next) => {
    const { socket } = context.env.incoming;
    const neighbour = neighbours.get(socket) ?? neighbourOf(socket, uid);
    neighbours.set(socket, neighbour);
    if (neighbour === 'stranger') {
      return context.json({ message: 'The emulator answers the user who started it, and nobody else.' }, 403);
    }
    return next();
  });
}

function isLoopback(hostAndPort: string): boolean {
  const host = hostAndPort.replace(/:\d+$/, '');
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

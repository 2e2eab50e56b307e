// The lab: who has booked each TPU, whose jobs use it, and the windows of its users.

import './lab.css';
import { formatAge } from '../../app/format.ts';
import type { Instant } from '../../core/model/time.ts';
import type { LabUsage } from '../../lab/lab-usage.ts';
import type { LabUser } from '../../lab/users.ts';
import { now } from '../clock.ts';
import { serverNow } from '../live.ts';
import { Empty, Failure } from '../parts/messages.tsx';
import { actorOf, client, session } from '../session.ts';
import { useLiveRead } from './read.ts';
import { Tpus } from './tpus.tsx';
import { Windows } from './windows.tsx';

interface LabState {
  readonly usage: LabUsage;
  readonly users: readonly LabUser[];
  readonly readAt: Instant;
}

export function LabPage() {
  const lab = useLiveRead('lab', async (): Promise<LabState> => {
    const [usage, users] = await Promise.all([client.lab.usage(), client.lab.users()]);
    return { usage, users, readAt: serverNow() };
  });
  const actor = actorOf(session.value);
  const { value, failure, again } = lab;
  return (
    <section class="page lab">
      {failure !== null && (
        <Failure
          lines={[
            ...failure,
            ...(value === undefined ? [] : [`The contents below are ${formatAge(now.value - value.readAt)} old.`]),
          ]}
          retry={again}
        />
      )}
      {value === undefined ? (
        failure === null && <p class="quiet">Reading the lab…</p>
      ) : value.users.length === 0 && value.usage.tpus.length === 0 ? (
        <>
          <h1>Lab</h1>
          <Empty command="tpu add-user NAME">
            This home has no lab. A lab shares TPUs among its users. This command adds the first user.
          </Empty>
        </>
      ) : (
        <>
          <Tpus usage={value.usage} users={value.users} actor={actor} onChanged={again} />
          <Windows users={value.users} actor={actor} />
        </>
      )}
    </section>
  );
}

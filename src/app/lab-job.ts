// The lab's part of a job: the store writes it in the transaction that creates the job.

/** The facts of a `tpu run` that are not in the job's spec. */
export interface LabJob {
  readonly job: string;
  /** Name in the registry; the same as the job's owner. */
  readonly user: string;
  /** The working directory when the job was created, and its number; null if a script ran from elsewhere. */
  readonly directory: string;
  readonly directoryNumber: number | null;
  readonly tpu: string;
  /** Arguments of staging.sh after `ka=`, in order: `--config.training.learning_rate=0.01`. */
  readonly configs: readonly string[];
  readonly tag: string | null;
  /** False: no rule follows its end (`monitor=False`). */
  readonly monitor: boolean;
  readonly logStage: boolean;
  /** The attempt of another job, on another TPU, that this job resumes or reruns. */
  readonly parent: { readonly job: string; readonly attempt: number; readonly startMode: 'resume' | 'rerun' } | null;
  /** The stage of its first attempt: the parent's stage + 1 after a resume, else 0. */
  readonly baseStage: number;
  /** Its bookings are in a spreadsheet. Absent: in the table of the database. */
  readonly spreadsheet?: true;
  /** Jobs that its newest start has ended on the TPU. Its script ends what they left there. Absent: none. */
  readonly replaces?: readonly string[];
  /** Programs of no job to whose end the user has agreed. Its newest start ends them before its script. Absent: none. */
  readonly foreignPrograms?: readonly DeviceHolder[];
}

/** A program that uses the device of a worker. */
export interface DeviceHolder {
  readonly worker: number;
  readonly pid: number;
  readonly user: string;
  /** The command line, arguments separated by spaces. */
  readonly command: string;
}

/** The booking of a run in the booking sheet. */
export interface RunBooking {
  /** The user's name in the sheet. */
  readonly user: string;
  /** The user of the booking when the TPU was checked. A booking by yet another user is a conflict. */
  readonly seenUser: string | null;
  /** Absent: the notes stay. */
  readonly scriptNote?: string;
}

export interface LabEntry {
  readonly job: Omit<LabJob, 'job' | 'user'>;
  readonly booking: RunBooking;
}

/** The lab's part of a command that starts a job again: the store writes it in the transaction of the command. */
export interface LabRestart
  extends Pick<LabEntry, 'booking'>, Pick<LabJob, 'replaces' | 'foreignPrograms' | 'spreadsheet'> {
  /** Gets a window. */
  readonly attempt: number;
}

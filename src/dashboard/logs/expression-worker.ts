// The thread of expressions: it answers each task with one message.

import { perform, type ExpressionTask } from './expression-task.ts';

onmessage = ({ data }: MessageEvent<ExpressionTask>) => postMessage(perform(data));

/**
 * `remuster balance` and `remuster rebalance`: how evenly the load is spread over the nodes, and moves that even it
 * out.
 */
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk, exitPartial } from '../command/exit.ts';
import { getJson, withDc, postJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { formatAmount } from '../output/amounts.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

type NodeLoad = {
  readonly name: string;
  readonly isActive: boolean;
  readonly isGone: boolean;
  readonly containers: number;
  readonly copies: number;
  readonly load: number;
  readonly isOverloaded: boolean;
  readonly isUnderloaded: boolean;
};

type Balance = {
  readonly strategy: string;
  readonly activeNodes: number;
  readonly containers: number;
  readonly unassigned: number;
  readonly variation: number;
  readonly variationMax: number;
  readonly movesToEven: number;
  readonly balanced: boolean;
  readonly band: string;
  readonly nodes: readonly NodeLoad[];
};

const nodeColumns: readonly Column<NodeLoad>[] = [
  { title: 'NODE', cell: (row) => row.name },
  { title: 'CONTAINERS', cell: (row) => String(row.containers) },
  { title: 'COPIES', cell: (row) => String(row.copies) },
  { title: 'LOAD', cell: (row) => row.load.toFixed(2) },
  { title: 'NOTE', cell: noteOf },
];

function noteOf({ isActive, isGone, isOverloaded, isUnderloaded }: NodeLoad): string {
  if (isGone) return 'lost: its containers are being recovered';
  if (!isActive) return 'not active';
  if (isOverloaded) return 'overloaded';
  return isUnderloaded ? 'underloaded' : '';
}

export async function balanceCommand(
  flags: TargetFlags & { readonly dc?: string; readonly watch?: true },
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(format, flags.watch === true, async () => {
    const reply = await getJson(target, withDc('/v1/balance', flags.dc));
    const { schemaVersion: _, ...balance } = reply as Balance & { schemaVersion: number };
    if (format === 'table' || format === 'wide') return { text: await balanceText(balance, format) };
    return { text: await renderObject(format, balance, { name: balance.band, lines: [] }) };
  });
}

async function balanceText(balance: Balance, format: 'table' | 'wide'): Promise<string> {
  const { containers, unassigned, activeNodes, strategy, nodes } = balance;
  const sorted = nodes.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  return [
    summaryOf(balance),
    `${containers} containers on ${activeNodes} active nodes, ${unassigned} without a node (strategy ${strategy})`,
    '',
    await renderList(format, sorted, nodeColumns, (row) => row.name),
  ].join('\n');
}

/** The state of the balance, and the command that improves it. */
function summaryOf({ band, balanced, variation, variationMax, movesToEven, containers }: Balance): string {
  const figure = `coefficient of variation ${variation.toFixed(3)}`;
  if (movesToEven === 0) return `${band}: ${figure}, as even as possible`;
  const moves = `${movesToEven} of ${containers} containers would have to move to make it as even as possible`;
  if (balanced) return `${band}: ${figure}, within the target of ${variationMax}; ${moves}`;
  return `${band}: ${figure}, above the target of ${variationMax}; ${moves}: remuster rebalance`;
}

type Move = { readonly name: string; readonly from: string; readonly to: string };

type RebalanceResult = {
  readonly dryRun: boolean;
  readonly moves: readonly Move[];
  readonly started: number;
  readonly failed: readonly { readonly name: string; readonly why: string }[];
  readonly variationBefore: number;
  readonly variationAfter: number;
  readonly why: string;
};

export type RebalanceFlags = TargetFlags &
  ConfirmFlags & {
    readonly output: OutputFormat;
    readonly dryRun?: true;
    readonly dc?: string;
    readonly maxMoves?: number;
    readonly reason?: string;
  };

const moveColumns: readonly Column<Move>[] = [
  { title: 'MOVE', cell: (row) => row.name },
  { title: 'FROM', cell: (row) => row.from },
  { title: 'TO', cell: (row) => row.to },
];

export async function rebalanceCommand(flags: RebalanceFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const dryRun = flags.dryRun === true;
  if (!dryRun && flags.yes !== true && process.stdin.isTTY) {
    const plan = await requestRebalance(target, flags, true);
    if (plan.moves.length > 0) {
      printNotice(await movesText('table', plan));
      await confirm(`Start ${formatAmount(plan.moves.length, 'move')}?`, flags, 'proceed');
    }
  }
  const done = await requestRebalance(target, flags, dryRun);
  if (flags.output === 'table' || flags.output === 'wide') printData(await movesText(flags.output, done));
  else
    printData(
      await renderObject(flags.output, done, { name: done.moves.map(({ name }) => name).join('\n'), lines: [] }),
    );
  for (const { name, why } of done.failed) printNotice(`${stripControls(name)} is not moved: ${stripControls(why)}`);
  return done.failed.length === 0 ? exitOk : exitPartial;
}

async function requestRebalance(
  target: ClusterTarget,
  { dc, maxMoves, reason }: RebalanceFlags,
  dryRun: boolean,
): Promise<RebalanceResult> {
  const reply = await postJson(target, withDc('/v1/rebalance', dc), { dryRun, maxMoves, reason });
  const { schemaVersion: _, ...result } = reply as RebalanceResult & { schemaVersion: number };
  return result;
}

async function movesText(format: 'table' | 'wide', result: RebalanceResult): Promise<string> {
  const { moves, variationBefore, variationAfter, why, dryRun, started } = result;
  const summary = dryRun
    ? `would start ${formatAmount(moves.length, 'move')}`
    : `started ${formatAmount(started, 'move')}, which the cluster completes in the background`;
  const variation = `coefficient of variation ${variationBefore.toFixed(3)} -> ${variationAfter.toFixed(3)}`;
  if (moves.length === 0) return `nothing to move: ${why} (coefficient of variation ${variationBefore.toFixed(3)})`;
  return `${await renderList(format, moves, moveColumns, (row) => row.name)}\n\n${summary}: ${why}, ${variation}`;
}

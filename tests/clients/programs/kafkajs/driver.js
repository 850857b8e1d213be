// KafkaJS, asked by the scenarios of the client matrix: a JSON question a line, a JSON answer each.
'use strict'
const { readFileSync } = require('fs')
const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, ConfigResourceTypes, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
const READ_MS = 20000
const members = new Map()
const producers = new Map()
let serial = 0

function kafka(q) {
  const { protocol = '', mechanism, user: username, password, ca } = q.door || {}
  return new Kafka({
    clientId: 'matrix',
    brokers: [q.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 8, initialRetryTime: 50 },
    ...(protocol.endsWith('SSL') ? { ssl: { ca: [readFileSync(ca)] } } : {}),
    ...(mechanism ? { sasl: { mechanism: mechanism.toLowerCase(), username, password } } : {}),
  })
}
const unpack = (text) => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const pack = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

async function until(true_, ms) {
  const over = Date.now() + ms
  while (!true_() && Date.now() < over) await pause(10)
}

function outgoing(q) {
  return q.records.map((r) => {
    const headers = {}
    for (const [name, value] of r.headers) headers[name] = name in headers ? [].concat(headers[name], [unpack(value)]) : unpack(value)
    return { key: unpack(r.key), value: unpack(r.value), headers, partition: q.partition, ...(r.timestamp === null ? {} : { timestamp: String(r.timestamp) }) }
  })
}

function incoming(partition, m) {
  const headers = []
  for (const [name, value] of Object.entries(m.headers || {})) for (const one of [].concat(value)) headers.push([name, pack(one)])
  return { key: pack(m.key), value: pack(m.value), headers, timestamp: Number(m.timestamp), partition, offset: Number(m.offset) }
}

async function administer(q, act) {
  const admin = kafka(q).admin()
  await admin.connect()
  try {
    return await act(admin)
  } finally {
    await admin.disconnect()
  }
}

async function join(q, name, options) {
  const consumer = kafka(q).consumer({ groupId: q.group, sessionTimeout: 10000, heartbeatInterval: 500, maxWaitTimeInMs: 100, readUncommitted: !q.committed, ...options })
  const member = { consumer, records: [], owned: [] }
  consumer.on(consumer.events.GROUP_JOIN, (e) => { member.owned = e.payload.memberAssignment[q.topic] || [] })
  consumer.on(consumer.events.REBALANCING, () => { member.owned = [] })
  await consumer.connect()
  await consumer.subscribe({ topics: [q.topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => { member.records.push(incoming(partition, message)) } })
  members.set(name, member)
  return member
}

async function take(name, count) {
  const member = members.get(name)
  await until(() => member.records.length >= count, READ_MS)
  return member.records.splice(0, count)
}

const verbs = {
  create_topic: (q) => administer(q, async (admin) => {
    const configEntries = Object.entries(q.config).map(([name, value]) => ({ name, value }))
    const made = await admin.createTopics({ topics: [{ topic: q.topic, numPartitions: q.partitions, replicationFactor: 1, configEntries }] })
    if (!made) throw new Error('topic exists already')
  }),
  delete_topic: (q) => administer(q, (admin) => admin.deleteTopics({ topics: [q.topic] })),
  list_topics: (q) => administer(q, (admin) => admin.listTopics()),
  partitions_of: (q) => administer(q, async (admin) => (await admin.fetchTopicMetadata({ topics: [q.topic] })).topics[0].partitions.length),
  grow_topic: (q) => administer(q, (admin) => admin.createPartitions({ topicPartitions: [{ topic: q.topic, count: q.partitions }] })),
  set_config: (q) => administer(q, (admin) => admin.alterConfigs({
    validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: q.topic, configEntries: [{ name: q.name, value: q.value }] }],
  })),
  get_config: (q) => administer(q, async (admin) => {
    const told = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: q.topic, configNames: [q.name] }] })
    return told.resources[0].configEntries[0].configValue
  }),
  offset_of: (q) => administer(q, async (admin) => {
    const listed = q.at >= 0 ? await admin.fetchTopicOffsetsByTimestamp(q.topic, q.at) : await admin.fetchTopicOffsets(q.topic)
    const found = listed.find((each) => each.partition === q.partition)
    return Number(q.at === -2 ? found.low : found.offset)
  }),
  groups: (q) => administer(q, async (admin) => (await admin.listGroups()).groups.map((group) => group.groupId)),
  committed: (q) => administer(q, async (admin) => {
    const [told] = await admin.fetchOffsets({ groupId: q.group, topics: [q.topic] })
    return Object.fromEntries(told.partitions.map((each) => [each.partition, Number(each.offset)]))
  }),
  delete_group: (q) => administer(q, (admin) => admin.deleteGroups([q.group])),

  async produce(q) {
    const producer = kafka(q).producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: q.idempotent })
    await producer.connect()
    try {
      const told = await producer.send({ topic: q.topic, messages: outgoing(q), acks: q.acks, compression: CODECS[q.codec] })
      if (q.acks === 0) return []
      return q.records.map((_, n) => Number(told[0].baseOffset) + n)
    } finally {
      await producer.disconnect()
    }
  },

  // KafkaJS reads only as a member of a group, so a group of one is made for the reading.
  async read(q) {
    const start = q.timestamp === null ? q.offset : await verbs.offset_of({ ...q, at: q.timestamp })
    const name = `reader-${++serial}`
    const member = await join({ ...q, group: `${name}-${process.pid}-${Date.now()}` }, name, {})
    member.consumer.seek({ topic: q.topic, partition: q.partition, offset: String(start) })
    try {
      await until(() => member.records.filter((r) => r.offset >= start).length >= q.count, READ_MS)
      const seen = new Map(member.records.filter((r) => r.offset >= start).map((r) => [r.offset, r]))
      return [...seen.values()].sort((a, b) => a.offset - b.offset).slice(0, q.count)
    } finally {
      members.delete(name)
      await member.consumer.disconnect()
    }
  },

  join: async (q) => { await join({ ...q, committed: true }, q.member, {}) },
  take: (q) => take(q.member, q.count),
  assigned: async (q) => members.get(q.member).owned,
  commit: (q) => members.get(q.member).consumer.commitOffsets(
    Object.entries(q.offsets).map(([partition, offset]) => ({ topic: q.topic, partition: Number(partition), offset: String(offset) }))),
  async leave(q) {
    const { consumer } = members.get(q.member)
    members.delete(q.member)
    await consumer.disconnect()
  },

  async open_producer(q) {
    const producer = kafka(q).producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: true, maxInFlightRequests: 1, transactionalId: q.transactional_id, transactionTimeout: 30000 })
    await producer.connect()
    await (await producer.transaction()).abort() // the epoch is taken with the first transaction: take it now
    producers.set(q.producer, { producer, transaction: null })
  },
  async begin(q) {
    const own = producers.get(q.producer)
    own.transaction = await own.producer.transaction()
  },
  async send(q) { await producers.get(q.producer).transaction.send({ topic: q.topic, messages: outgoing(q) }) },
  async send_offsets(q) {
    const partitions = Object.entries(q.offsets).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) }))
    await producers.get(q.producer).transaction.sendOffsets({ consumerGroupId: q.group, topics: [{ topic: q.topic, partitions }] })
  },
  async end(q) {
    const { transaction } = producers.get(q.producer)
    await (q.commit ? transaction.commit() : transaction.abort())
  },
  async close_producer(q) {
    const { producer } = producers.get(q.producer)
    producers.delete(q.producer)
    await producer.disconnect()
  },
}

async function answer(line) {
  const q = JSON.parse(line)
  try {
    const ok = await verbs[q.verb](q)
    return { ok: ok === undefined ? null : ok }
  } catch (refused) {
    const types = [refused.type, refused.cause && refused.cause.type]
    const fenced = types.some((type) => ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH'].includes(type))
    return { error: `${refused.name}: ${refused.message}`, ...(fenced ? { fenced: true } : {}) }
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) console.log(JSON.stringify(await answer(line)))
  process.exit(0)
}
main()

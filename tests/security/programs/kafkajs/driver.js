// Gets in with kafkajs: one JSON line says where and as whom, one JSON line says how it went.
const fs = require('fs')
const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

function sasl(way) {
  if (!way.mechanism) return undefined
  const mechanism = way.mechanism.toLowerCase()
  if (mechanism === 'oauthbearer') return { mechanism, oauthBearerProvider: async () => ({ value: way.token }) }
  return { mechanism, username: way.user, password: way.password }
}

function tls(way) {
  if (!way.protocol.endsWith('SSL')) return false
  const own = way.cert ? { cert: fs.readFileSync(way.cert), key: fs.readFileSync(way.key) } : {}
  return { ca: [fs.readFileSync(way.ca)], servername: 'localhost', ...own }
}

async function read(way) {
  const kafka = new Kafka({
    brokers: [way.bootstrap], ssl: tls(way), sasl: sasl(way), logLevel: logLevel.NOTHING, retry: { retries: 0 },
  })
  const producer = kafka.producer()
  await producer.connect()
  try {
    await producer.send({ topic: way.topic, acks: -1, messages: [{ value: 'hello' }] })
  } finally {
    await producer.disconnect()
  }
  const consumer = kafka.consumer({ groupId: `kafkajs-${process.hrtime.bigint()}` })
  await consumer.connect()
  try {
    await consumer.subscribe({ topics: [way.topic], fromBeginning: true })
    return await new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error('nothing to read')), 15000).unref()
      consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let told
    try {
      told = { ok: await read(JSON.parse(line)) }
    } catch (error) {
      told = { error: `${error.name}: ${error.message}` }
    }
    console.log(JSON.stringify(told))
  }
  process.exit(0)
}

main()

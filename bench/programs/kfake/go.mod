module kfake

go 1.26.8

require github.com/twmb/franz-go/pkg/kfake v0.0.0-20260905045312-d70fc1b5b9f8

require (
	github.com/klauspost/compress v1.18.6 // indirect
	github.com/pierrec/lz4/v4 v4.1.26 // indirect
	github.com/twmb/franz-go v1.21.1 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.13.1 // indirect
)
